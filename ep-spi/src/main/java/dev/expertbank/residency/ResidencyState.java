package dev.expertbank.residency;

/** Where an expert is. {@code COLD → FILLING → RESIDENT → COLD} is the way of a healthy one. */
public enum ResidencyState {
  /** Read in place from the model file. */
  COLD,
  /** Being copied into a slot; still read in place. */
  FILLING,
  /** Read from its slot. */
  RESIDENT,
  /**
   * Read in place, with a slot that cannot be used again: a failed copy may still be writing to it.
   */
  QUARANTINED
}
