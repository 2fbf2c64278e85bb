package dev.expertbank.residency;

import dev.expertbank.residency.ResidencyOutcome.Moves;
import dev.expertbank.residency.ResidencyOutcome.WindowUse;

/**
 * Sums over the boundaries and resizes of one bank.
 *
 * @param applied boundaries whose plan was applied
 * @param rejected boundaries that were not safe
 * @param wholeBank boundaries whose window decided nothing
 * @param failed boundaries that disarmed residency
 * @param use what the windows that were applied have used
 * @param moves what was moved
 */
public record ResidencyTotals(
    long applied, long rejected, long wholeBank, long failed, WindowUse use, Moves moves) {

  static final ResidencyTotals ZERO = new ResidencyTotals(0, 0, 0, 0, WindowUse.NONE, Moves.NONE);

  /** Bytes read in place and bytes copied, for each row; NaN before the first row. */
  public double bytesPerToken() {
    return (double) (use.missedBytes() + moves.startedBytes()) / use.tokens();
  }

  ResidencyTotals plus(ResidencyOutcome outcome) {
    return new ResidencyTotals(
        applied + (outcome instanceof ResidencyOutcome.Applied ? 1 : 0),
        rejected + (outcome instanceof ResidencyOutcome.RejectedNotSafeBoundary ? 1 : 0),
        wholeBank + (outcome instanceof ResidencyOutcome.WholeBank ? 1 : 0),
        failed + (outcome instanceof ResidencyOutcome.Failed ? 1 : 0),
        use,
        moves);
  }

  ResidencyTotals plus(WindowUse more) {
    return new ResidencyTotals(applied, rejected, wholeBank, failed, use.plus(more), moves);
  }

  ResidencyTotals plus(Moves more) {
    return new ResidencyTotals(applied, rejected, wholeBank, failed, use, moves.plus(more));
  }
}
