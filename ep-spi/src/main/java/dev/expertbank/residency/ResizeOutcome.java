package dev.expertbank.residency;

import java.util.Optional;

/**
 * What became of a resize.
 *
 * @param before budget before it
 * @param after budget that is in force now
 * @param rejection why it is not full; empty if what was requested was achieved, or if shrinking
 *     stopped at what quarantine or an already smaller budget left
 */
public record ResizeOutcome(
    ResizeRequest request, long before, long after, Optional<ResizeRejection> rejection) {
  /** How much of the request was achieved. */
  public enum Extent {
    FULL,
    PARTIAL,
    NONE
  }

  /** By how much the budget has really changed. */
  public long achievedBytes() {
    return Math.abs(after - before);
  }

  /** How much of the request was achieved. */
  public Extent extent() {
    if (achievedBytes() == 0) {
      return Extent.NONE;
    }
    return achievedBytes() == request.bytes() ? Extent.FULL : Extent.PARTIAL;
  }
}
