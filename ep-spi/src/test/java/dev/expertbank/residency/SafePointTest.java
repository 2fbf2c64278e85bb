package dev.expertbank.residency;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.residency.SafePoint.Blocker;
import org.junit.jupiter.api.Test;

class SafePointTest {
  @Test
  void blockersHaveAFixedPriority() {
    assertThat(new SafePoint(true, 1, 1, true, 1).blocker()).contains(Blocker.CAPTURING);
    assertThat(new SafePoint(false, 1, 1, true, 1).blocker()).contains(Blocker.PENDING_FILLS);
    assertThat(new SafePoint(false, 0, 1, true, 1).blocker()).contains(Blocker.RUNS_IN_FLIGHT);
    assertThat(new SafePoint(false, 0, 0, true, 1).blocker()).contains(Blocker.MULTI_DEVICE);
    assertThat(new SafePoint(false, 0, 0, false, 1).blocker()).contains(Blocker.ROUTE_GUARDS);
    assertThat(SafePoint.CLEAR.blocker()).isEmpty();
  }

  @Test
  void pendingFillsDoNotBlockTheBoundaryThatEndsThem() {
    assertThat(new SafePoint(false, 5, 0, false, 0).boundaryBlocker()).isEmpty();
    assertThat(new SafePoint(true, 5, 1, true, 1).boundaryBlocker()).contains(Blocker.CAPTURING);
    assertThat(new SafePoint(false, 5, 1, true, 1).boundaryBlocker())
        .contains(Blocker.RUNS_IN_FLIGHT);
    assertThat(new SafePoint(false, 5, 0, true, 1).boundaryBlocker())
        .contains(Blocker.MULTI_DEVICE);
    assertThat(new SafePoint(false, 5, 0, false, 1).boundaryBlocker())
        .contains(Blocker.ROUTE_GUARDS);
  }
}
