package dev.expertbank.residency.policy;

import dev.expertbank.residency.PolicySettings;
import dev.expertbank.residency.ResidencyDecision;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyPolicy;
import dev.expertbank.residency.ResidencyPolicyFactory;
import dev.expertbank.residency.ResidencySnapshot;

/** Keeps everything, layer by layer as far as the budget goes: a static split. */
public final class WholeBankPolicy implements ResidencyPolicy {
  /** The policy's name. */
  public static final String NAME = "whole-bank";

  private final ResidencyDecision everything;

  public WholeBankPolicy(ResidencyLayout layout) {
    everything =
        new ResidencyDecision(
            layout.keys().stream().filter(key -> layout.layer(key).isPageable()).toList());
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public ResidencyDecision decide(ResidencySnapshot snapshot) {
    return everything;
  }

  /** Makes it for ServiceLoader. */
  public static final class Factory implements ResidencyPolicyFactory {
    @Override
    public String name() {
      return NAME;
    }

    @Override
    public ResidencyPolicy create(PolicySettings settings) {
      return new WholeBankPolicy(settings.layout());
    }
  }
}
