package dev.expertbank.residency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.residency.DoubleBufferPlan.Step.Await;
import dev.expertbank.residency.DoubleBufferPlan.Step.Compute;
import dev.expertbank.residency.DoubleBufferPlan.Step.Prefetch;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

class DoubleBufferPlanTest {
  @Test
  void nothingNeedsNoSteps() {
    assertThat(DoubleBufferPlan.plan(0)).isEmpty();
    assertThatThrownBy(() -> DoubleBufferPlan.plan(-1))
        .isInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void aSingleItemNeedsNoSecondPrefetch() {
    assertThat(DoubleBufferPlan.plan(1))
        .containsExactly(new Prefetch(0, 0), new Await(0), new Compute(0, 0));
  }

  @Test
  void theNextItemIsPrefetchedBeforeTheWaitForThisOne() {
    assertThat(DoubleBufferPlan.plan(4))
        .containsExactly(
            new Prefetch(0, 0),
            new Prefetch(1, 1),
            new Await(0),
            new Compute(0, 0),
            new Prefetch(2, 0),
            new Await(1),
            new Compute(1, 1),
            new Prefetch(3, 1),
            new Await(2),
            new Compute(2, 0),
            new Await(3),
            new Compute(3, 1));
  }

  @Test
  void noBufferIsRefilledBeforeItsItemWasComputedOn() {
    Map<Integer, Integer> buffers = new HashMap<>();
    Set<Integer> arrived = new HashSet<>();
    Set<Integer> computed = new HashSet<>();
    for (DoubleBufferPlan.Step step : DoubleBufferPlan.plan(101)) {
      switch (step) {
        case Prefetch(int item, int buffer) -> {
          Integer before = buffers.put(buffer, item);
          assertThat(before == null || computed.contains(before)).isTrue();
        }
        case Await(int item) -> arrived.add(item);
        case Compute(int item, int buffer) -> {
          assertThat(buffers).containsEntry(buffer, item);
          assertThat(arrived).contains(item);
          computed.add(item);
        }
      }
    }
    assertThat(computed).hasSize(101);
    assertThat(buffers).hasSize(2);
  }
}
