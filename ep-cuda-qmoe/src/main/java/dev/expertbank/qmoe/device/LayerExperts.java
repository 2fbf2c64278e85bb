package dev.expertbank.qmoe.device;

import dev.expertbank.qmoe.bank.AddressTable;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * The experts of one layer, as a device sees them. Nothing here changes while a run is in flight.
 */
public interface LayerExperts {
  /** Where kernels find every expert. */
  AddressTable table();

  /** Whether an expert is read where the model has it, rather than from a slot. */
  boolean isCold(int expert);

  /** Whether no expert is cold. */
  boolean isResident();

  /**
   * Whether kernels can read a cold expert where it is. One that they cannot read has no addresses
   * in the table while it is cold, and has to be streamed through a slot.
   */
  boolean isReadInPlace(int expert);

  /** What to copy so that a slot holds an expert. */
  List<CopyPiece> pieces(int expert);

  /**
   * Points an expert's row to a slot that holds it.
   *
   * @param rows a run's own copy of the table's rows
   */
  void pointTo(MemorySegment rows, int expert, Slot slot);
}
