package dev.expertbank.tests.session;

import dev.expertbank.residency.ExpertKey;
import dev.expertbank.residency.PolicySettings;
import dev.expertbank.residency.ResidencyDecision;
import dev.expertbank.residency.ResidencyPolicy;
import dev.expertbank.residency.ResidencyPolicyFactory;
import dev.expertbank.residency.ResidencySnapshot;
import java.util.List;

/** A policy that no shipped jar has: keeps the experts with an even number. */
public final class EvenExpertsPolicyFactory implements ResidencyPolicyFactory {
  static final String NAME = "even-experts";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public ResidencyPolicy create(PolicySettings settings) {
    return new EvenExperts();
  }

  private record EvenExperts() implements ResidencyPolicy {
    @Override
    public String name() {
      return NAME;
    }

    @Override
    public ResidencyDecision decide(ResidencySnapshot snapshot) {
      List<ExpertKey> even =
          snapshot.layout().keys().stream().filter(key -> key.expert() % 2 == 0).toList();
      return new ResidencyDecision(even);
    }
  }
}
