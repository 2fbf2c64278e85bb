package dev.expertbank.spi;

import java.nio.file.Path;

/**
 * The provider of one session. {@link #claim} and {@link #compile} are called on the thread that
 * creates the session; runs may be concurrent; {@link #consumeRouteResidencyAtBoundary} is never
 * called while a run of the session is in flight.
 */
public interface ExecutionProvider extends AutoCloseable {
  /** Pure: the same node always gets the same answer. */
  Claim claim(GraphNode node);

  /**
   * Prepares a node that {@link #claim} took.
   *
   * @param modelDirectory the folder that external data is relative to
   */
  CompiledNode compile(GraphNode node, Path modelDirectory);

  /**
   * Called once when a top-level run has ended and its outputs exist, and no other run of the
   * session is in flight; overlapping runs are covered by one call when the last of them ends.
   * Bodies of If, Loop and Scan are part of their run and cause no call of their own. An exception
   * cannot fail the finished run: the host reports it as {@link BoundaryOutcome.Failed}.
   */
  BoundaryOutcome consumeRouteResidencyAtBoundary(RunBoundary boundary);

  /** Called once, after every compiled node has been closed. */
  @Override
  void close();
}
