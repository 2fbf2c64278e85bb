package dev.expertbank.qmoe.device;

import dev.expertbank.residency.ResidencyActions.FillEnd;

/** A copy into a slot that has been submitted. */
public interface SlotCopy {
  /** Waits until the copy has ended, or until the device gives up waiting. */
  FillEnd await();

  /** How long the copy itself took, once {@link #await} has found it completed. */
  long nanos();
}
