package dev.expertbank.qmoe.device;

/** Takes the routes of every row, for a record of a session. Called by the threads of runs. */
@FunctionalInterface
public interface RouteSink {
  /**
   * Some rows of one layer.
   *
   * @param selected {@code [rows][top k]}: the experts of each row, also those that its weights
   *     drop
   */
  void routes(int layer, int[] selected);
}
