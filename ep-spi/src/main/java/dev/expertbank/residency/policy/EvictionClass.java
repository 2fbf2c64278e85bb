package dev.expertbank.residency.policy;

/** What happens to an expert that has a slot when others want it. */
public enum EvictionClass {
  /** Leaves when it was not used for longer than the others. */
  LRU,
  /** Stays while it is wanted, whatever else was used since. */
  STABLE_RESIDENT
}
