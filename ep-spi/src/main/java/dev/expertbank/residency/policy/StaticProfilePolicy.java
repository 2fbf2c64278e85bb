package dev.expertbank.residency.policy;

import dev.expertbank.residency.HeatProfile;
import dev.expertbank.residency.PolicySettings;
import dev.expertbank.residency.Ranking;
import dev.expertbank.residency.ResidencyDecision;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyPolicy;
import dev.expertbank.residency.ResidencyPolicyFactory;
import dev.expertbank.residency.ResidencySnapshot;
import dev.expertbank.spi.EpException;

/** Keeps what a saved profile says is used most, and never changes its mind. */
public final class StaticProfilePolicy implements ResidencyPolicy {
  /** The policy's name. */
  public static final String NAME = "static-profile";

  private final ResidencyDecision profiled;

  public StaticProfilePolicy(ResidencyLayout layout, HeatProfile profile) {
    profiled =
        new ResidencyDecision(
            Ranking.descending(
                layout,
                index -> {
                  var layer = layout.layer(layout.keys().get(index));
                  return layer.isPageable()
                      ? profile.usesPerRow(index) * layer.bytesSavedPerSlotByte()
                      : 0;
                }));
  }

  @Override
  public String name() {
    return NAME;
  }

  /** What it decides at every boundary. */
  public ResidencyDecision decision() {
    return profiled;
  }

  @Override
  public ResidencyDecision decide(ResidencySnapshot snapshot) {
    return profiled;
  }

  /** Makes it for ServiceLoader. */
  public static final class Factory implements ResidencyPolicyFactory {
    /** For ServiceLoader. */
    public Factory() {}

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public ResidencyPolicy create(PolicySettings settings) {
      return new StaticProfilePolicy(
          settings.layout(),
          settings
              .profile()
              .orElseThrow(
                  () ->
                      new EpException(
                          "residency.policy",
                          "policy static-profile needs a profile: set residency.profile.load to"
                              + " one that residency.profile.save has written")));
    }
  }
}
