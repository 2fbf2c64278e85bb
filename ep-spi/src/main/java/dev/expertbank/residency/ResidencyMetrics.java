package dev.expertbank.residency;

import java.util.List;

/**
 * The residency of one session at its last boundary or resize. Sizes are in bytes.
 *
 * @param byteHitRate the part of the used bytes that was resident; NaN before the first use
 * @param armed false once residency has disarmed itself
 * @param totals hits, misses, bytes promoted, and boundaries by outcome
 * @param residentBytes expert bytes of what is resident
 * @param budgetBytes what slots may take
 * @param committedBytes what slots take: filling, resident and quarantined
 * @param peakCommittedBytes the most that slots ever took
 * @param heldBytes memory that the device holds for slots, free ones included
 * @param residentExperts how many are resident
 * @param quarantinedSlots slots that a failed copy may still be writing to
 * @param quarantinedBytes what these take
 * @param waitNanos time that boundaries have spent waiting for copies
 * @param prefill what prefill has streamed
 * @param resizes the latest, oldest first
 */
public record ResidencyMetrics(
    double byteHitRate,
    boolean armed,
    ResidencyTotals totals,
    long residentBytes,
    long budgetBytes,
    long committedBytes,
    long peakCommittedBytes,
    long heldBytes,
    int residentExperts,
    int quarantinedSlots,
    long quarantinedBytes,
    long waitNanos,
    PrefillStreamMetrics prefill,
    List<ResizeOutcome> resizes) {
  public ResidencyMetrics {
    resizes = List.copyOf(resizes);
  }
}
