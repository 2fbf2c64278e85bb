package dev.expertbank.residency;

import dev.expertbank.residency.ResidencyOutcome.Moves;
import dev.expertbank.residency.ResidencyOutcome.WindowUse;

/**
 * Sums over the boundaries of one bank.
 *
 * @param applied boundaries whose plan was applied
 * @param rejected boundaries that were not safe
 * @param wholeBank boundaries whose window decided nothing
 * @param failed boundaries that disarmed residency
 * @param tokens rows of the applied windows
 * @param hits experts that were resident when a window used them
 * @param misses experts that were not
 * @param hitBytes expert bytes of the hits
 * @param missedBytes expert bytes that the misses read in place
 * @param promotions fills that started
 * @param promotedBytes expert bytes that they copy
 * @param evictions experts that lost their slot
 * @param failedFills fills that did not start, or ended with an error
 * @param quarantinedFills fills that may still be in flight
 */
public record ResidencyTotals(
    long applied,
    long rejected,
    long wholeBank,
    long failed,
    long tokens,
    long hits,
    long misses,
    long hitBytes,
    long missedBytes,
    long promotions,
    long promotedBytes,
    long evictions,
    long failedFills,
    long quarantinedFills) {

  static final ResidencyTotals ZERO = new ResidencyTotals(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);

  /** The part of the used bytes that was resident; NaN before the first use. */
  public double byteHitRate() {
    return (double) hitBytes / (hitBytes + missedBytes);
  }

  /** Bytes read in place and bytes copied, for each row; NaN before the first row. */
  public double bytesPerToken() {
    return (double) (missedBytes + promotedBytes) / tokens;
  }

  ResidencyTotals plus(ResidencyOutcome outcome) {
    return new ResidencyTotals(
        applied + (outcome instanceof ResidencyOutcome.Applied ? 1 : 0),
        rejected + (outcome instanceof ResidencyOutcome.RejectedNotSafeBoundary ? 1 : 0),
        wholeBank + (outcome instanceof ResidencyOutcome.WholeBank ? 1 : 0),
        failed + (outcome instanceof ResidencyOutcome.Failed ? 1 : 0),
        tokens,
        hits,
        misses,
        hitBytes,
        missedBytes,
        promotions,
        promotedBytes,
        evictions,
        failedFills,
        quarantinedFills);
  }

  ResidencyTotals plus(WindowUse use) {
    return new ResidencyTotals(
        applied,
        rejected,
        wholeBank,
        failed,
        tokens + use.tokens(),
        hits + use.hits(),
        misses + use.misses(),
        hitBytes + use.hitBytes(),
        missedBytes + use.missedBytes(),
        promotions,
        promotedBytes,
        evictions,
        failedFills,
        quarantinedFills);
  }

  ResidencyTotals plus(Moves moves) {
    return new ResidencyTotals(
        applied,
        rejected,
        wholeBank,
        failed,
        tokens,
        hits,
        misses,
        hitBytes,
        missedBytes,
        promotions + moves.started(),
        promotedBytes + moves.startedBytes(),
        evictions + moves.evicted(),
        failedFills + moves.failed(),
        quarantinedFills + moves.quarantined());
  }
}
