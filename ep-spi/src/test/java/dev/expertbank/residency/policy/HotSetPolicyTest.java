package dev.expertbank.residency.policy;

import static dev.expertbank.residency.Snapshots.keys;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.residency.ExpertKey;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.PolicySettings.PinSettings;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.Snapshots;
import dev.expertbank.residency.policy.HotSetPolicy.AdmissionInput;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.qmoe.NonPageableReason;
import java.util.List;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

/** Two layers of four experts, top 1, in slots of ten bytes, and one that stays where it is. */
class HotSetPolicyTest {
  private static final ResidencyLayout LAYOUT =
      new ResidencyLayout(
          List.of(
              LayerLayout.pageable(4, 1, 10, 10),
              LayerLayout.pageable(4, 1, 10, 10),
              LayerLayout.nonPageable(4, 1, 10, new NonPageableReason.InlineTensor())));

  private static HotSetPolicy policy(PinSettings pins) {
    return new HotSetPolicy(LAYOUT, pins);
  }

  private static PinSettings threshold(double uses, long budget, ExpertKey... keys) {
    return new PinSettings(List.of(keys), OptionalDouble.of(uses), OptionalLong.of(budget), false);
  }

  private static AdmissionInput input(double uses, long pinnedBytes) {
    return new AdmissionInput(new ExpertKey(0, 0), 10, uses, pinnedBytes);
  }

  @Test
  void withoutSettingsItDecidesAsTheWholeBankDoes() {
    Snapshots bank = new Snapshots(LAYOUT, 40).window(3);
    assertThat(bank.decide(policy(PinSettings.NONE)))
        .isEqualTo(bank.decide(new WholeBankPolicy(LAYOUT)))
        .hasSize(8);
  }

  @Test
  void withoutSettingsNothingIsPinned() {
    assertThat(policy(PinSettings.NONE).shouldPin(input(1, 0))).isFalse();
    assertThat(
            policy(new PinSettings(List.of(), OptionalDouble.of(0), OptionalLong.empty(), false))
                .shouldPin(input(1, 0)))
        .isFalse();
    assertThat(
            policy(new PinSettings(List.of(), OptionalDouble.empty(), OptionalLong.of(99), false))
                .shouldPin(input(1, 0)))
        .isFalse();
  }

  @Test
  void thePinListTakesPriorityOverThresholdAndBudget() {
    HotSetPolicy listed = policy(threshold(0.9, 0, new ExpertKey(0, 0)));
    assertThat(listed.shouldPin(input(0, 1000))).isTrue();
    assertThat(listed.shouldPin(new AdmissionInput(new ExpertKey(0, 1), 10, 1, 0))).isFalse();
  }

  @Test
  void theThresholdPathRespectsTheBudget() {
    HotSetPolicy half = policy(threshold(0.5, 30));
    assertThat(half.shouldPin(input(0.49, 0))).isFalse();
    assertThat(half.shouldPin(input(0.5, 0))).isTrue();
    assertThat(half.shouldPin(input(0.5, 20))).isTrue();
    assertThat(half.shouldPin(input(0.5, 21))).isFalse();
  }

  @Test
  void theEvictionClassIsStableForWhatIsPinnedOrScanResistant() {
    PinSettings resistant =
        new PinSettings(List.of(), OptionalDouble.empty(), OptionalLong.empty(), true);
    assertThat(policy(PinSettings.NONE).evictionClass(false)).isEqualTo(EvictionClass.LRU);
    assertThat(policy(PinSettings.NONE).evictionClass(true))
        .isEqualTo(EvictionClass.STABLE_RESIDENT);
    assertThat(policy(resistant).evictionClass(false)).isEqualTo(EvictionClass.STABLE_RESIDENT);
  }

  @Test
  void pinnedExpertsComeFirstAndTheOthersByRecency() {
    Snapshots bank = new Snapshots(LAYOUT, 40).window(2).window(2).window(0).window(1);
    assertThat(bank.decide(policy(threshold(0.5, 20, new ExpertKey(1, 3)))))
        .startsWith(keys(1, 3, 0, 2, 1, 1, 0, 1, 1, 0, 0, 0).toArray(ExpertKey[]::new))
        .endsWith(new ExpertKey(1, 2))
        .hasSize(7);
  }

  @Test
  void scanResistantWhatIsThereStays() {
    PinSettings resistant =
        new PinSettings(keys(1, 0), OptionalDouble.empty(), OptionalLong.empty(), true);
    Snapshots bank =
        new Snapshots(LAYOUT, 30).resident(0, 3).resident(1, 2).window(0).window(1).window(0);
    assertThat(bank.decide(policy(resistant)))
        .startsWith(keys(1, 0, 0, 3, 1, 2, 0, 0, 0, 1).toArray(ExpertKey[]::new))
        .hasSize(8);
  }

  @Test
  void pinsThatTheModelDoesNotHaveAreRefused() {
    for (ExpertKey bad : keys(3, 0, -1, 0, 0, 4, 0, -1, 2, 0)) {
      assertThatThrownBy(() -> policy(threshold(1, 0, bad)))
          .isInstanceOfSatisfying(
              EpException.class, e -> assertThat(e.code()).isEqualTo("residency.pins"));
    }
  }
}
