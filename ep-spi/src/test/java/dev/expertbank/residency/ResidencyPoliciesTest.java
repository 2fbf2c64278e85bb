package dev.expertbank.residency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.residency.policy.LruPolicy;
import dev.expertbank.residency.policy.WholeBankPolicy;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.qmoe.NonPageableReason;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class ResidencyPoliciesTest {
  private final ResidencyLayout layout =
      new ResidencyLayout(
          List.of(
              LayerLayout.pageable(4, 2, 10, 16),
              LayerLayout.nonPageable(4, 2, 10, new NonPageableReason.InlineTensor()),
              LayerLayout.pageable(4, 2, 10, 16)));

  @Test
  void aPolicyIsFoundByItsName() {
    assertThat(ResidencyPolicies.create("lru", new PolicySettings(layout)))
        .isInstanceOf(LruPolicy.class);
  }

  @Test
  void everyPolicyHasTheNameOfItsFactory() {
    assertThat(ResidencyPolicies.names())
        .containsExactly("adaptive", "hot-set", "lru", "static-profile", "whole-bank");
    PolicySettings settings =
        new PolicySettings(
            layout,
            Optional.of(new HeatProfile(layout, new double[12])),
            PolicySettings.PinSettings.NONE);
    for (String name : ResidencyPolicies.names()) {
      assertThat(ResidencyPolicies.create(name, settings).name()).isEqualTo(name);
    }
  }

  @Test
  void anUnknownNameIsAnErrorThatListsTheKnown() {
    assertThatThrownBy(() -> ResidencyPolicies.create("mru", new PolicySettings(layout)))
        .isInstanceOfSatisfying(
            EpException.class, e -> assertThat(e.code()).isEqualTo("residency.policy"))
        .hasMessageContaining("'mru'")
        .hasMessageContaining("lru, ")
        .hasMessageContaining("whole-bank");
  }

  @Test
  void wholeBankRanksEveryPageableExpertInOrder() {
    assertThat(decide(new WholeBankPolicy(layout)))
        .isEqualTo(layout.keys().stream().filter(key -> key.layer() != 1).toList());
  }

  @Test
  void lruRanksTheLastUsedLayerFirstAndLeavesOutWhatWasNeverUsed() {
    assertThat(decide(new LruPolicy(), new int[] {0, 3}, new int[] {1, 2}))
        .containsExactly(
            new ExpertKey(2, 1),
            new ExpertKey(2, 2),
            new ExpertKey(0, 1),
            new ExpertKey(0, 2),
            new ExpertKey(2, 0),
            new ExpertKey(2, 3),
            new ExpertKey(0, 0),
            new ExpertKey(0, 3));
  }

  /** What the policy wants after one window for each list of experts, routed in every layer. */
  private List<ExpertKey> decide(ResidencyPolicy policy, int[]... windows) {
    HeatTable heat = new HeatTable(layout, HeatTable.Settings.DEFAULT);
    Windows source = new Windows(layout);
    source.reset(1);
    long boundary = 0;
    for (int[] experts : windows) {
      source.reset(boundary + 1);
      source.routeEverywhere(experts);
      heat.add(source.read(), boundary++);
    }
    ResidencyLedger ledger = new ResidencyLedger(layout, 64);
    return policy
        .decide(new ResidencySnapshot(ledger, heat, source.read(), boundary - 1, 64))
        .ranked();
  }
}
