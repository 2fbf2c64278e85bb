package dev.expertbank.residency;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.residency.LayerDegradation.Reason;
import dev.expertbank.spi.qmoe.NonPageableReason;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class ResidencyPlannerTest {
  private final ResidencyLayout layout =
      new ResidencyLayout(
          List.of(
              LayerLayout.pageable(2, 1, 10, 10),
              LayerLayout.pageable(4, 1, 10, 10),
              LayerLayout.nonPageable(4, 1, 10, new NonPageableReason.InlineTensor()),
              LayerLayout.pageable(4, 1, 10, 10)));

  private static ExpertKey key(int layer, int expert) {
    return new ExpertKey(layer, expert);
  }

  private ResidencyPlan validate(ExpertKey... ranked) {
    return ResidencyPlanner.validateDecision(layout, new ResidencyDecision(List.of(ranked)));
  }

  private static void assertDegraded(ResidencyPlan plan, int layer, Reason reason, String detail) {
    assertThat(plan.degraded())
        .anySatisfy(
            degraded -> {
              assertThat(degraded.layer()).isEqualTo(layer);
              assertThat(degraded.reason()).isEqualTo(reason);
              assertThat(degraded.detail()).contains(detail);
            });
  }

  @Test
  void everyLayerIsWholeOrPerExpertOrDegraded() {
    ResidencyPlan plan = validate(key(0, 1), key(1, 3), key(0, 0));
    assertThat(plan.ranked()).containsExactly(key(0, 1), key(1, 3), key(0, 0));
    assertThat(plan.wholeLayers()).isEqualTo(1);
    assertThat(plan.perExpertLayers()).isEqualTo(2);
    assertThat(plan.degraded()).hasSize(1);
    assertDegraded(plan, 2, Reason.NON_PAGEABLE, "not as external data");
  }

  @Test
  void anExpertThatDoesNotExistDegradesItsLayerAlone() {
    ResidencyPlan plan = validate(key(1, 0), key(1, 4), key(3, 2));
    assertDegraded(plan, 1, Reason.EXPERT_RANGE, "expert 4 of 4");
    assertThat(plan.ranked()).containsExactly(key(3, 2));
    assertThat(plan.wholeLayers() + plan.perExpertLayers() + plan.degraded().size()).isEqualTo(4);
    assertDegraded(validate(key(3, -1)), 3, Reason.EXPERT_RANGE, "expert -1");
  }

  @Test
  void anExpertNamedTwiceDegradesItsLayerAlone() {
    ResidencyPlan plan = validate(key(1, 2), key(3, 2), key(1, 2));
    assertDegraded(plan, 1, Reason.DUPLICATE, "expert 2");
    assertThat(plan.ranked()).containsExactly(key(3, 2));
  }

  @Test
  void expertsOfALayerThatIsNotPageableAreLeftOut() {
    ResidencyPlan plan = validate(key(2, 0), key(1, 1));
    assertDegraded(plan, 2, Reason.NON_PAGEABLE, "");
    assertThat(plan.ranked()).containsExactly(key(1, 1));
  }

  @Test
  void theFirstViolationOfALayerIsTheOneReported() {
    assertDegraded(validate(key(2, 9)), 2, Reason.NON_PAGEABLE, "");
    assertDegraded(validate(key(1, 7), key(1, 0), key(1, 0)), 1, Reason.EXPERT_RANGE, "expert 7");
    assertDegraded(validate(key(1, 0), key(1, 0), key(1, 7)), 1, Reason.DUPLICATE, "expert 0");
  }

  @Test
  void aLayerThatDoesNotExistDegradesEveryLayer() {
    ResidencyPlan plan = validate(key(1, 0), key(4, 0));
    assertThat(plan.ranked()).isEmpty();
    assertThat(plan.degraded()).hasSize(4);
    assertDegraded(plan, 1, Reason.LAYER_RANGE, "of 4 layers");
    assertDegraded(plan, 2, Reason.NON_PAGEABLE, "");
  }

  @Test
  void aPolicyThatThrowsDegradesEveryLayer() {
    ResidencyPlan plan = plan(new IllegalStateException("no idea"));
    assertThat(plan.ranked()).isEmpty();
    assertThat(plan.degraded()).hasSize(4);
    assertDegraded(plan, 0, Reason.POLICY_FAILED, "no idea");
    assertDegraded(plan(new NoSuchMethodError("old")), 0, Reason.POLICY_FAILED, "old");
  }

  @Test
  void anEmptyDecisionIsAccepted() {
    ResidencyPlan plan = validate();
    assertThat(plan.ranked()).isEmpty();
    assertThat(plan.perExpertLayers()).isEqualTo(3);
    assertThat(plan.degraded()).hasSize(1);
  }

  private ResidencyPlan plan(Throwable failure) {
    Windows windows = new Windows(layout);
    windows.reset(1);
    ResidencySnapshot snapshot =
        new ResidencySnapshot(
            new ResidencyLedger(layout, 100),
            new HeatTable(layout, HeatTable.Settings.DEFAULT),
            windows.read(),
            0,
            100);
    return ResidencyPlanner.plan(new FailingPolicy(failure), snapshot);
  }

  private record FailingPolicy(Throwable failure) implements ResidencyPolicy {
    @Override
    public String name() {
      return "failing";
    }

    @Override
    public ResidencyDecision decide(ResidencySnapshot snapshot) {
      if (failure instanceof RuntimeException exception) {
        throw exception;
      }
      throw (Error) failure;
    }
  }

  @Test
  void rankingsKeepTheOrderOfTheLayoutInTies() {
    double[] score = new double[layout.keys().size()];
    Arrays.fill(score, 2, 6, 1.5);
    score[9] = 1e-20;
    score[10] = 3e9;
    assertThat(Ranking.descending(layout, index -> score[index]))
        .containsExactly(key(3, 0), key(1, 0), key(1, 1), key(1, 2), key(1, 3), key(2, 3));
    assertThat(Ranking.ascending(layout, index -> index > 8, index -> score[index]))
        .containsExactly(key(3, 1), key(3, 2), key(3, 3), key(2, 3), key(3, 0));
  }
}
