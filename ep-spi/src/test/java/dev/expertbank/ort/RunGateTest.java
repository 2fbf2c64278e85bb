package dev.expertbank.ort;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.spi.BoundaryOutcome;
import dev.expertbank.spi.RunBoundary;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class RunGateTest {
  private final List<RunBoundary> seen = new ArrayList<>();
  private final RunGate gate =
      new RunGate(
          boundary -> {
            seen.add(boundary);
            return BoundaryOutcome.notResident();
          });

  @Test
  void serialRunsReachOneBoundaryEach() {
    for (int i = 0; i < 3; i++) {
      gate.runStarted();
      assertThat(seen).hasSize(i);
      gate.runEnded();
    }
    assertThat(seen)
        .containsExactly(new RunBoundary(0, 1), new RunBoundary(1, 1), new RunBoundary(2, 1));
  }

  @Test
  void overlappingRunsShareTheBoundaryThatFollowsTheLastOfThem() throws Exception {
    gate.runStarted();
    CountDownLatch started = new CountDownLatch(1);
    CountDownLatch mayEnd = new CountDownLatch(1);
    Thread other =
        Thread.ofPlatform()
            .start(
                () -> {
                  gate.runStarted();
                  started.countDown();
                  awaitQuietly(mayEnd);
                  gate.runEnded();
                });
    started.await();
    gate.runEnded();
    assertThat(seen).as("a run is still in flight").isEmpty();
    mayEnd.countDown();
    other.join();
    assertThat(seen).containsExactly(new RunBoundary(0, 2));
  }

  @Test
  void whatWaitsForASafePointRunsAtOnceWhenIdleAndElseAfterTheBoundary() {
    assertThat(gate.next(() -> "idle")).isCompletedWithValue("idle");
    gate.runStarted();
    var waiting = gate.next(seen::size);
    var withdrawn = gate.next(() -> seen.add(new RunBoundary(9, 9)));
    assertThat(waiting).isNotDone();
    withdrawn.cancel(false);
    gate.runEnded();
    assertThat(waiting).as("boundaries before it").isCompletedWithValue(1);
    assertThat(seen).containsExactly(new RunBoundary(0, 1));
  }

  @Test
  void aClosedGateRefusesWhatWaits() {
    gate.runStarted();
    var waiting = gate.next(() -> "never");
    gate.close();
    assertThat(waiting).isCompletedExceptionally();
    assertThat(gate.next(() -> "never")).isCompletedExceptionally();
  }

  @Test
  void aRunWhoseEndNeverCameIsOverWhenItsThreadStartsAnother() {
    gate.runStarted();
    gate.runStarted();
    assertThat(seen).containsExactly(new RunBoundary(0, 1));
    gate.runEnded();
    assertThat(seen).containsExactly(new RunBoundary(0, 1), new RunBoundary(1, 1));
  }

  @Test
  void aRunWhoseThreadDiedDoesNotBlockTheBoundary() throws Exception {
    Thread.ofPlatform().start(gate::runStarted).join();
    gate.runStarted();
    gate.runEnded();
    assertThat(seen).containsExactly(new RunBoundary(0, 2));
  }

  @Test
  void aRunThatBeginsDuringTheBoundaryWaitsForIt() throws Exception {
    CountDownLatch inBoundary = new CountDownLatch(1);
    CountDownLatch mayLeave = new CountDownLatch(1);
    RunGate slow =
        new RunGate(
            boundary -> {
              inBoundary.countDown();
              awaitQuietly(mayLeave);
              return BoundaryOutcome.notResident();
            });
    Thread first =
        Thread.ofPlatform()
            .start(
                () -> {
                  slow.runStarted();
                  slow.runEnded();
                });
    inBoundary.await();
    CountDownLatch second = new CountDownLatch(1);
    Thread other =
        Thread.ofPlatform()
            .start(
                () -> {
                  slow.runStarted();
                  second.countDown();
                });
    assertThat(second.await(50, TimeUnit.MILLISECONDS)).isFalse();
    mayLeave.countDown();
    first.join();
    other.join();
    assertThat(second.getCount()).isZero();
  }

  @Test
  void aThrowingBoundaryBecomesAnOutcomeAndTheNextOneIsStillCalled() {
    RunGate throwing =
        new RunGate(
            boundary -> {
              throw new StackOverflowError("on purpose");
            });
    throwing.runStarted();
    throwing.runEnded();
    assertThat(throwing.lastOutcome())
        .isEqualTo(new BoundaryOutcome.Failed("java.lang.StackOverflowError: on purpose"));
    throwing.runStarted();
    throwing.runEnded();
    assertThat(throwing.boundaries()).isEqualTo(2);
  }

  private static void awaitQuietly(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
