package dev.expertbank.residency.policy;

import static dev.expertbank.residency.Snapshots.keys;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.residency.ExpertKey;
import dev.expertbank.residency.HeatProfile;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.PolicySettings;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyPolicies;
import dev.expertbank.residency.Snapshots;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.qmoe.NonPageableReason;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class AdaptivePolicyTest {
  private final ResidencyLayout one =
      new ResidencyLayout(List.of(LayerLayout.pageable(8, 1, 10, 10)));

  private static AdaptivePolicy policy(double payback, double horizon, int stay) {
    return new AdaptivePolicy(new AdaptivePolicy.Settings(payback, horizon, stay));
  }

  @Test
  void theMostUsedComeFirst() {
    Snapshots bank = new Snapshots(one, 20).window(5).window(2).window(5);
    assertThat(bank.decide(policy(16, 64, 0))).isEqualTo(keys(0, 5, 0, 2));
  }

  @Test
  void aChallengerHasToPayItsCopyBackWithinThePaybackTime() {
    // Expert 1 is used three times in eight, expert 0 once: a quarter of the rows more often.
    Snapshots bank =
        new Snapshots(one, 10)
            .resident(0, 0)
            .window(0)
            .window(1)
            .window(2)
            .window(1)
            .window(3)
            .window(1)
            .window(4)
            .window(5);
    assertThat(bank.decide(policy(3.9, 64, 0))).startsWith(new ExpertKey(0, 0));
    assertThat(bank.decide(policy(4.1, 64, 0))).startsWith(new ExpertKey(0, 1));
  }

  @Test
  void whatIsUsedLessThanOnceInTheHorizonIsNotPromoted() {
    Snapshots bank = new Snapshots(one, 80).window(7).window(1).window(1).window(1);
    assertThat(bank.decide(policy(16, 3.9, 0))).isEqualTo(keys(0, 1));
    assertThat(bank.decide(policy(16, 4.1, 0))).isEqualTo(keys(0, 1, 0, 7));
  }

  @Test
  void anExpertStaysBeforeItHasToCompete() {
    Snapshots bank = new Snapshots(one, 10).window(0).window(0).resident(0, 3).window(0).window(0);
    // Published at boundary 2, asked at boundary 3.
    assertThat(bank.decide(policy(1e9, 64, 2))).startsWith(new ExpertKey(0, 3));
    assertThat(bank.decide(policy(1e9, 64, 1))).startsWith(new ExpertKey(0, 0));
  }

  @Test
  void layersAreComparedByBytesSavedForEachByteOfTheBudget() {
    ResidencyLayout padded =
        new ResidencyLayout(
            List.of(
                LayerLayout.pageable(2, 1, 10, 40),
                LayerLayout.pageable(2, 1, 30, 32),
                LayerLayout.nonPageable(2, 1, 10, new NonPageableReason.InlineTensor())));
    Snapshots bank = new Snapshots(padded, 100).window(0).window(0).window(1);
    assertThat(bank.decide(policy(16, 64, 0))).isEqualTo(keys(1, 0, 1, 1, 0, 0, 0, 1));
  }

  @Test
  void aStaticProfileIsRankedOnceAndForAll() {
    HeatProfile profile = new HeatProfile(one, new double[] {0, 0.5, 0, 0.2, 0, 0, 0.9, 0});
    var settings = new PolicySettings(one, Optional.of(profile), PolicySettings.PinSettings.NONE);
    Snapshots bank = new Snapshots(one, 20).window(0).window(0);
    assertThat(bank.decide(ResidencyPolicies.create("static-profile", settings)))
        .isEqualTo(keys(0, 6, 0, 1, 0, 3));
  }

  @Test
  void aStaticProfileNeedsAProfile() {
    assertThatThrownBy(() -> ResidencyPolicies.create("static-profile", new PolicySettings(one)))
        .isInstanceOf(EpException.class)
        .hasMessageContaining("residency.profile.load");
  }

  @Test
  void settingsThatCannotBeAreRefused() {
    assertThatThrownBy(() -> policy(0.5, 64, 0)).isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> policy(16, 0, 0)).isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> policy(16, 64, -1)).isInstanceOf(IllegalArgumentException.class);
  }
}
