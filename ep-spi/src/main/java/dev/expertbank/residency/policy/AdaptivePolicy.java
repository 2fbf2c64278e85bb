package dev.expertbank.residency.policy;

import dev.expertbank.residency.PolicySettings;
import dev.expertbank.residency.Ranking;
import dev.expertbank.residency.ResidencyDecision;
import dev.expertbank.residency.ResidencyPolicy;
import dev.expertbank.residency.ResidencyPolicyFactory;
import dev.expertbank.residency.ResidencySnapshot;
import dev.expertbank.residency.ResidencyState;

/**
 * Keeps what saves the most bytes: uses per row, times expert bytes, by slot byte, over all layers.
 *
 * <p>A promotion copies as much as one miss reads, so it has to save more than one use. Into a free
 * slot, an expert is promoted if it is expected to be used at least once within the horizon. Into
 * the slot of another, only if it is expected to be used once more than the other within the
 * payback time, which is shorter, because what has overtaken one resident may be overtaken in turn.
 * An expert stays for some boundaries before it has to compete.
 */
public final class AdaptivePolicy implements ResidencyPolicy {
  /** The policy's name. */
  public static final String NAME = "adaptive";

  /** Above every score that use alone can give. */
  private static final double PROTECTED = 4;

  private final Settings settings;

  /**
   * How reluctantly experts are moved.
   *
   * @param paybackRows rows within which a copy into the slot of another expert has to pay, at
   *     least 1
   * @param horizonRows rows within which a copy into a free slot has to pay, at least 1
   * @param minimumStay boundaries for which a promoted expert does not compete
   */
  public record Settings(double paybackRows, double horizonRows, int minimumStay) {
    /**
     * On recorded routes of a model with 24 layers of 32 experts, at budgets of 25 % and 50 %,
     * bytes per token change by less than 1 % for paybacks of 8 to 32 rows and stays of 0 to 8
     * boundaries.
     */
    public static final Settings DEFAULT = new Settings(16, 64, 4);

    public Settings {
      if (!(paybackRows >= 1) || !(horizonRows >= 1) || minimumStay < 0) {
        throw new IllegalArgumentException(
            "payback %s, horizon %s, minimum stay %d"
                .formatted(paybackRows, horizonRows, minimumStay));
      }
    }
  }

  public AdaptivePolicy(Settings settings) {
    this.settings = settings;
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public ResidencyDecision decide(ResidencySnapshot snapshot) {
    return new ResidencyDecision(
        Ranking.descending(snapshot.layout(), index -> score(snapshot, index)));
  }

  private double score(ResidencySnapshot snapshot, int index) {
    if (!snapshot.isPageable(index)) {
      return 0;
    }
    double uses = snapshot.usesPerRow(index);
    if (!snapshot.isHeld(index)) {
      return uses * settings.horizonRows() >= 1 ? snapshot.savings(index) : 0;
    }
    double density =
        snapshot.layout().layer(snapshot.layout().keys().get(index)).bytesSavedPerSlotByte();
    double kept = (uses + 1 / settings.paybackRows()) * density;
    boolean arrivedLately =
        snapshot.state(index) == ResidencyState.FILLING
            || snapshot.residentFor(index) < settings.minimumStay();
    return arrivedLately ? PROTECTED + kept : kept;
  }

  /** Makes it for ServiceLoader. */
  public static final class Factory implements ResidencyPolicyFactory {
    @Override
    public String name() {
      return NAME;
    }

    @Override
    public ResidencyPolicy create(PolicySettings settings) {
      return new AdaptivePolicy(Settings.DEFAULT);
    }
  }
}
