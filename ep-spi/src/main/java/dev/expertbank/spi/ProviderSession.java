package dev.expertbank.spi;

import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResizeOutcome;
import dev.expertbank.residency.ResizeRequest;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** What an application may ask of a provider in an open session. Safe from any thread. */
public interface ProviderSession {
  /** Every node that the provider saw, and what it answered. */
  PlacementReport placement();

  /** Boundaries that the session has reached: one per top-level run, unless runs overlapped. */
  long boundaries();

  /** What the provider did at the last boundary; empty before the first. */
  Optional<BoundaryOutcome> lastBoundaryOutcome();

  /**
   * Changes the budget of fast memory: at once when no run is in flight, else at the next boundary.
   *
   * @return the outcome; completed exceptionally with {@code residency.off} if the session has no
   *     budget, with {@code session.closed} if it is closed first. Cancelling it before it takes
   *     effect withdraws the request.
   */
  CompletableFuture<ResizeOutcome> resize(ResizeRequest request);

  /** How weights that are not in fast memory are reached. */
  WeightReport weights();

  /** What is resident and what that has brought; empty without residency. */
  Optional<ResidencyMetrics> metrics();
}
