package dev.expertbank.residency.policy;

import dev.expertbank.residency.PolicySettings;
import dev.expertbank.residency.Ranking;
import dev.expertbank.residency.ResidencyDecision;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyPolicy;
import dev.expertbank.residency.ResidencyPolicyFactory;
import dev.expertbank.residency.ResidencySnapshot;

/**
 * Keeps what was used last, over all layers. Within a window the later layer was used later.
 *
 * <p>A run walks through the layers in a circle, so a budget of less than one token's experts gives
 * hardly any hit.
 */
public final class LruPolicy implements ResidencyPolicy {
  /** The policy's name. */
  public static final String NAME = "lru";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public ResidencyDecision decide(ResidencySnapshot snapshot) {
    ResidencyLayout layout = snapshot.layout();
    int layers = layout.layers().size();
    return new ResidencyDecision(
        Ranking.ascending(
            layout,
            index ->
                snapshot.lastUse(index) != ResidencySnapshot.NEVER && snapshot.isPageable(index),
            index -> {
              long windowsAgo = snapshot.boundary() - snapshot.lastUse(index);
              return windowsAgo * layers + (layers - layout.keys().get(index).layer());
            }));
  }

  /** Makes it for ServiceLoader. */
  public static final class Factory implements ResidencyPolicyFactory {
    @Override
    public String name() {
      return NAME;
    }

    @Override
    public ResidencyPolicy create(PolicySettings settings) {
      return new LruPolicy();
    }
  }
}
