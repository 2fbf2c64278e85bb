package dev.expertbank.spi;

import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResizeOutcome;
import dev.expertbank.residency.ResizeRequest;
import java.nio.file.Path;
import java.util.Optional;

/**
 * The provider of one session. {@link #claim} and {@link #compile} are called on the thread that
 * creates the session; runs may be concurrent; {@link #consumeRouteResidencyAtBoundary} and {@link
 * #resize} are never called while a run of the session is in flight.
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
   * Called once, after all nodes have been compiled and before the first run. An exception ends the
   * creation of the session.
   *
   * @param safePoints for work that has to wait until no run is in flight; usable until {@link
   *     #close}
   */
  void sessionCreated(SafePoints safePoints);

  /**
   * Called once when a top-level run has ended and its outputs exist, and no other run of the
   * session is in flight; overlapping runs are covered by one call when the last of them ends.
   * Bodies of If, Loop and Scan are part of their run and cause no call of their own. An exception
   * cannot fail the finished run: the host reports it as {@link BoundaryOutcome.Failed}.
   */
  BoundaryOutcome consumeRouteResidencyAtBoundary(RunBoundary boundary);

  /**
   * Changes the budget of fast memory. Called at a safe point only, after the boundary of the runs
   * before it.
   *
   * @throws EpException {@code residency.off} if the session has no budget that could change
   */
  ResizeOutcome resize(ResizeRequest request);

  /** How weights that are not in fast memory are reached, once the session has been created. */
  WeightReport weights();

  /** What is resident and what that has brought; empty without residency. Safe from any thread. */
  Optional<ResidencyMetrics> metrics();

  /** Called once, after every compiled node has been closed. */
  @Override
  void close();
}
