package dev.expertbank.residency;

/** Where the windows come from: the telemetry record of a device, or a trace. */
public interface RouteWindowSource {
  /** What was recorded since the last reset. */
  RouteWindow read();

  /** Empties the record and gives it the number of the next window. */
  void reset(long epoch);
}
