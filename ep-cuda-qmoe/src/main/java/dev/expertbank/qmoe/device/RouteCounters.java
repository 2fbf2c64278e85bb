package dev.expertbank.qmoe.device;

/**
 * The record into which the route steps of all layers count: the six words of {@link
 * dev.expertbank.residency.RouteWindow.Header}, then one counter for each expert, layer by layer.
 */
public interface RouteCounters {
  /** From the next run on, routes are counted. */
  void arm();

  /** From the next run on, nothing is counted. */
  void disarm();

  /** The whole record in one copy; asked between runs only. */
  int[] read();

  /** Sets every counter to 0, and the header; asked between runs only. */
  void reset(int[] header);
}
