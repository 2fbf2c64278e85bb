package dev.expertbank.spi;

import java.util.Optional;

/** What an application may ask of a provider in an open session. Safe from any thread. */
public interface ProviderSession {
  /** Every node that the provider saw, and what it answered. */
  PlacementReport placement();

  /** Boundaries that the session has reached: one per top-level run, unless runs overlapped. */
  long boundaries();

  /** What the provider did at the last boundary; empty before the first. */
  Optional<BoundaryOutcome> lastBoundaryOutcome();
}
