package dev.expertbank.residency;

/**
 * Chooses which experts to keep in fast memory. A function of the snapshot and of what it was made
 * with: it keeps no state between calls, so that a trace always gives the same decisions.
 */
public interface ResidencyPolicy {
  /** The name that option {@code residency.policy} knows it by. */
  String name();

  /** Called once at each boundary that had routes, unless all that can be resident is. */
  ResidencyDecision decide(ResidencySnapshot snapshot);
}
