package dev.expertbank.residency;

/**
 * What a boundary does to the world: device work in a live bank, nothing in a simulation.
 *
 * <p>Called by the thread that holds the boundary, while no run reads the table. A call that throws
 * where it has a result to return ends in the state that assumes the least: the copy may be in
 * flight.
 */
public interface ResidencyActions {
  /** How the start of a copy ended. */
  enum FillStart {
    STARTED,
    /** Nothing was submitted; the slot is free again. */
    NOT_SUBMITTED
  }

  /** How a copy ended. */
  enum FillEnd {
    COMPLETED,
    /** It ended with an error; nothing writes to the slot any more. */
    FAILED,
    /** It is not known whether it has ended. */
    MAY_BE_IN_FLIGHT
  }

  /** Takes a slot and starts the copy of all tensors of an expert into it, without waiting. */
  FillStart startFill(ExpertKey key);

  /** Waits until the copy has ended. */
  FillEnd awaitFill(ExpertKey key);

  /** Points the table's row to the slot. */
  void publish(ExpertKey key);

  /** Points the table's row back to the model file and frees the slot. */
  void unpublish(ExpertKey key);
}
