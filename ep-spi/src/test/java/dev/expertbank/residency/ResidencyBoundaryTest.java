package dev.expertbank.residency;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.residency.ResidencyActions.FillEnd;
import dev.expertbank.residency.ResidencyActions.FillStart;
import dev.expertbank.residency.ResidencyOutcome.Applied;
import dev.expertbank.residency.ResidencyOutcome.Extent;
import dev.expertbank.residency.ResidencyOutcome.WindowUse;
import dev.expertbank.residency.SafePoint.Blocker;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;

/** Two layers of four experts, top 1, ten bytes each in slots of sixteen. */
class ResidencyBoundaryTest {
  private final ResidencyLayout layout =
      new ResidencyLayout(
          List.of(LayerLayout.pageable(4, 1, 10, 16), LayerLayout.pageable(4, 1, 10, 16)));
  private final ResidencyLedger ledger = new ResidencyLedger(layout, 32);
  private final Windows windows = new Windows(layout);
  private final RecordingActions actions = new RecordingActions();

  private static SafePoint clear() {
    return SafePoint.CLEAR;
  }

  /** What the policy of the next boundary wants. */
  private List<ExpertKey> wanted = List.of();

  private ResidencyBoundary boundary = armed(1000);

  private ResidencyBoundary armed(long byteCap) {
    ResidencyBoundary made = boundary(byteCap, snapshot -> wanted);
    made.arm();
    return made;
  }

  private ResidencyBoundary boundary(
      long byteCap, Function<ResidencySnapshot, List<ExpertKey>> choice) {
    return new ResidencyBoundary(
        ledger,
        new HeatTable(layout, HeatTable.Settings.DEFAULT),
        new ResidencyPolicy() {
          @Override
          public String name() {
            return "test";
          }

          @Override
          public ResidencyDecision decide(ResidencySnapshot snapshot) {
            return new ResidencyDecision(choice.apply(snapshot));
          }
        },
        new ResidencyBoundary.Settings(Windows.OWNER, byteCap),
        windows,
        actions);
  }

  private static ExpertKey key(int layer, int expert) {
    return new ExpertKey(layer, expert);
  }

  private static List<ExpertKey> keys(int... layersAndExperts) {
    List<ExpertKey> keys = new ArrayList<>();
    for (int i = 0; i < layersAndExperts.length; i += 2) {
      keys.add(key(layersAndExperts[i], layersAndExperts[i + 1]));
    }
    return keys;
  }

  /** One row to the given expert of each layer, then a boundary. */
  private Applied run(int first, int second) {
    windows.route(new int[] {first}, new int[] {second});
    return (Applied) boundary.consume(ResidencyBoundaryTest::clear);
  }

  @Test
  void aFillIsPublishedAtTheBoundaryAfterItsStartAndHitsInTheRunAfterThat() {
    wanted = keys(0, 1);
    assertThat(run(1, 0).use()).isEqualTo(new WindowUse(1, 0, 2, 0, 20));
    assertThat(actions.take()).containsExactly("fill 0.1");
    assertThat(ledger.state(key(0, 1))).isEqualTo(ResidencyState.FILLING);
    assertThat(run(1, 0).use()).isEqualTo(new WindowUse(1, 0, 2, 0, 20));
    assertThat(actions.take()).containsExactly("await 0.1", "publish 0.1");
    assertThat(ledger.state(key(0, 1))).isEqualTo(ResidencyState.RESIDENT);
    assertThat(run(1, 0).use()).isEqualTo(new WindowUse(1, 1, 1, 10, 10));
    assertThat(actions.take()).isEmpty();
  }

  @Test
  void publicationComesBeforeEvictionAndEvictionBeforeTheFillThatNeedsTheRoom() {
    wanted = keys(0, 0, 0, 1);
    run(0, 0);
    actions.take();
    wanted = keys(1, 2, 0, 1);
    run(0, 0);
    assertThat(actions.take())
        .containsExactly(
            "await 0.0", "publish 0.0", "await 0.1", "publish 0.1", "unpublish 0.0", "fill 1.2");
  }

  @Test
  void whatThePlanLeavesOutKeepsItsSlotUntilTheRoomIsNeeded() {
    wanted = keys(0, 0, 0, 1);
    run(0, 0);
    wanted = List.of();
    run(0, 0);
    run(0, 0);
    assertThat(ledger.keysIn(ResidencyState.RESIDENT)).isEqualTo(keys(0, 0, 0, 1));
    wanted = keys(1, 1);
    actions.take();
    run(0, 0);
    // Expert 0.0 was used, 0.1 was not.
    assertThat(actions.take()).containsExactly("unpublish 0.1", "fill 1.1");
  }

  @Test
  void theBudgetCutsTheRankingAndTheCommittedBytesNeverExceedIt() {
    actions.onAction =
        () -> assertThat(ledger.committedBytes()).isLessThanOrEqualTo(ledger.budgetBytes());
    wanted = keys(0, 0, 0, 1, 0, 2, 0, 3);
    assertThat(run(0, 0).moves().started()).isEqualTo(2);
    wanted = keys(1, 0, 1, 1, 1, 2);
    Applied applied = run(0, 0);
    assertThat(applied.moves().evicted()).isEqualTo(2);
    assertThat(applied.moves().started()).isEqualTo(2);
    assertThat(ledger.peakCommittedBytes()).isEqualTo(32);
  }

  @Test
  void thePolicyIsNotAskedOnceEverythingIsResidentAndAgainAfterAnEviction() {
    ledger.setBudget(8 * 16);
    List<Long> asked = new ArrayList<>();
    boundary =
        boundary(
            1000,
            snapshot -> {
              asked.add(snapshot.boundary());
              return layout.keys();
            });
    boundary.arm();
    run(0, 0);
    run(0, 0);
    assertThat(ledger.count(ResidencyState.RESIDENT)).isEqualTo(8);
    assertThat(run(0, 0).use()).isEqualTo(new WindowUse(1, 2, 0, 20, 0));
    assertThat(asked).containsExactly(0L, 1L);
    ledger.evict(key(1, 3));
    assertThat(run(0, 0).moves().started()).isEqualTo(1);
    assertThat(asked).containsExactly(0L, 1L, 3L);
  }

  @Test
  void theByteCapMakesAPartialOutcomeThatTheNextBoundaryCompletes() {
    boundary = armed(15);
    wanted = keys(0, 0, 0, 1);
    Applied first = run(0, 0);
    assertThat(first.extent()).isEqualTo(Extent.PARTIAL);
    assertThat(first.requestedBytes()).isEqualTo(20);
    assertThat(first.achievedBytes()).isEqualTo(10);
    Applied second = run(0, 0);
    assertThat(second.extent()).isEqualTo(Extent.FULL);
    assertThat(second.requestedBytes()).isEqualTo(10);
    Applied third = run(0, 0);
    assertThat(third.extent()).isEqualTo(Extent.NOTHING);
    assertThat(third.requestedBytes()).isZero();
  }

  @Test
  void aFillThatWasNotSubmittedGivesItsSlotToTheNext() {
    actions.starts.put(key(0, 0), FillStart.NOT_SUBMITTED);
    wanted = keys(0, 0, 0, 1);
    Applied applied = run(0, 0);
    assertThat(applied.moves().failed()).isEqualTo(1);
    assertThat(applied.extent()).isEqualTo(Extent.PARTIAL);
    assertThat(ledger.state(key(0, 0))).isEqualTo(ResidencyState.COLD);
    assertThat(ledger.committedBytes()).isEqualTo(16);
  }

  @Test
  void nothingAchievedIsNotCalledFull() {
    actions.starts.put(key(0, 0), FillStart.NOT_SUBMITTED);
    wanted = keys(0, 0);
    Applied applied = run(0, 0);
    assertThat(applied.extent()).isEqualTo(Extent.NOTHING);
    assertThat(applied.requestedBytes()).isEqualTo(10);
  }

  @Test
  void aCopyThatEndedWithAnErrorIsNeverPublished() {
    actions.ends.put(key(0, 0), FillEnd.FAILED);
    wanted = keys(0, 0);
    run(0, 0);
    actions.take();
    wanted = List.of();
    assertThat(run(0, 0).moves().failed()).isEqualTo(1);
    assertThat(actions.take()).containsExactly("await 0.0");
    assertThat(ledger.committedBytes()).isZero();
  }

  @Test
  void aCopyThatMayBeInFlightIsQuarantinedAndStaysCharged() {
    actions.ends.put(key(0, 0), FillEnd.MAY_BE_IN_FLIGHT);
    wanted = keys(0, 0);
    run(0, 0);
    wanted = keys(0, 0, 0, 1, 0, 2);
    Applied applied = run(0, 0);
    assertThat(applied.moves().quarantined()).isEqualTo(1);
    assertThat(applied.moves().started()).isEqualTo(1);
    assertThat(ledger.state(key(0, 0))).isEqualTo(ResidencyState.QUARANTINED);
    assertThat(ledger.committedBytes()).isEqualTo(32);
    assertThat(boundary.totals().moves().quarantined()).isEqualTo(1);
  }

  @Test
  void disarmedReadsNothing() {
    boundary.disarm();
    Supplier<SafePoint> never =
        () -> {
          throw new AssertionError("asked for the safe point");
        };
    ResidencyOutcome outcome = boundary.consume(never);
    assertThat(outcome).isInstanceOf(ResidencyOutcome.Disabled.class);
    assertThat(boundary.consume(never)).isSameAs(outcome);
    assertThat(windows.reads).isZero();
  }

  @Test
  void aBoundaryThatIsNotSafeKeepsTheWindow() {
    wanted = keys(0, 0);
    windows.route(new int[] {1}, new int[] {2});
    assertThat(boundary.consume(() -> new SafePoint(false, 0, 1, false, 0)))
        .isEqualTo(new ResidencyOutcome.RejectedNotSafeBoundary(Blocker.RUNS_IN_FLIGHT));
    assertThat(windows.reads).isZero();
    assertThat(actions.take()).isEmpty();
    Applied applied = run(1, 3);
    assertThat(applied.use()).isEqualTo(new WindowUse(2, 0, 3, 0, 30));
    assertThat(applied.epoch()).isEqualTo(1);
    assertThat(run(1, 3).epoch()).isEqualTo(2);
    assertThat(boundary.totals().rejected()).isEqualTo(1);
  }

  @Test
  void aSafePointThatCannotBeReadCountsAsACapture() {
    assertThat(
            boundary.consume(
                () -> {
                  throw new IllegalStateException("device is gone");
                }))
        .isEqualTo(new ResidencyOutcome.RejectedNotSafeBoundary(Blocker.CAPTURING));
  }

  @Test
  void aWindowThatIsNotSoundIsConsumedAndMovesNothing() {
    wanted = keys(0, 0);
    run(0, 0);
    actions.take();
    windows.route(new int[] {1, 2}, new int[] {2});
    assertThat(boundary.consume(ResidencyBoundaryTest::clear))
        .isInstanceOfSatisfying(
            ResidencyOutcome.WholeBank.class,
            whole -> assertThat(whole.problem()).isEqualTo(RouteWindowProblem.TOKENS));
    assertThat(actions.take()).isEmpty();
    assertThat(run(0, 0).epoch()).isEqualTo(3);
    assertThat(actions.take()).containsExactly("await 0.0", "publish 0.0");
    assertThat(boundary.totals().wholeBank()).isEqualTo(1);
  }

  @Test
  void anEmptyWindowMovesNothing() {
    assertThat(boundary.consume(ResidencyBoundaryTest::clear))
        .isInstanceOfSatisfying(
            ResidencyOutcome.WholeBank.class,
            whole -> assertThat(whole.problem()).isEqualTo(RouteWindowProblem.EMPTY));
  }

  @Test
  void aDegradedLayerIsLeftAsItIs() {
    wanted = keys(0, 0, 1, 1);
    run(3, 1);
    run(3, 1);
    actions.take();
    // Expert 1.1 is used and 0.0 is not, yet only 1.1 may go.
    wanted = keys(0, 2, 0, 2, 1, 3);
    Applied applied = run(3, 1);
    assertThat(applied.degraded()).hasSize(1);
    assertThat(actions.take()).containsExactly("unpublish 1.1", "fill 1.3");
    assertThat(ledger.state(key(0, 0))).isEqualTo(ResidencyState.RESIDENT);
  }

  @Test
  void aPolicyThatThrowsStopsNeitherPublicationNorTheNextBoundary() {
    wanted = keys(0, 0);
    boundary =
        boundary(
            1000,
            snapshot -> {
              if (snapshot.boundary() == 1) {
                throw new IllegalStateException("no idea");
              }
              return wanted;
            });
    boundary.arm();
    run(0, 0);
    assertThat(run(0, 0).degraded()).hasSize(2);
    assertThat(actions.take()).containsExactly("fill 0.0", "await 0.0", "publish 0.0");
    assertThat(run(0, 0).degraded()).isEmpty();
  }

  @Test
  void anActionThatThrowsDisarmsAndLeavesItsSlotCharged() {
    wanted = keys(0, 0);
    actions.onAction =
        () -> {
          throw new IllegalStateException("device is gone");
        };
    windows.route(new int[] {0}, new int[] {0});
    assertThat(boundary.consume(ResidencyBoundaryTest::clear))
        .isInstanceOfSatisfying(
            ResidencyOutcome.Failed.class,
            failed -> assertThat(failed.reason()).contains("device is gone"));
    assertThat(ledger.state(key(0, 0))).isEqualTo(ResidencyState.QUARANTINED);
    assertThat(boundary.isArmed()).isFalse();
    assertThat(boundary.totals().failed()).isEqualTo(1);
    assertThat(boundary.totals().moves().quarantined()).isEqualTo(1);
  }

  @Test
  void afterAFailedAwaitTheOtherFillsArePublishedOnceArmedAgain() {
    wanted = keys(0, 0, 0, 1);
    run(0, 0);
    actions.take();
    actions.onAction =
        () -> {
          throw new IllegalStateException("once");
        };
    windows.route(new int[] {0}, new int[] {0});
    assertThat(boundary.consume(ResidencyBoundaryTest::clear))
        .isInstanceOf(ResidencyOutcome.Failed.class);
    actions.onAction = () -> {};
    actions.take();
    boundary.arm();
    run(0, 0);
    assertThat(actions.take()).containsExactly("await 0.1", "publish 0.1");
    assertThat(ledger.state(key(0, 0))).isEqualTo(ResidencyState.QUARANTINED);
  }

  @Test
  void anExpertCountsOnceInAWindowHoweverManyRowsItServes() {
    windows.route(new int[] {0}, new int[] {0});
    windows.route(new int[] {0}, new int[] {1});
    assertThat(run(0, 1).use()).isEqualTo(new WindowUse(3, 0, 3, 0, 30));
  }

  @Test
  void theTotalsAreTheSumsOfTheOutcomes() {
    wanted = keys(0, 0);
    run(0, 0);
    run(0, 0);
    wanted = keys(1, 0, 1, 1);
    run(0, 0);
    ResidencyTotals totals = boundary.totals();
    assertThat(totals.applied()).isEqualTo(3);
    assertThat(totals.use()).isEqualTo(new WindowUse(3, 1, 5, 10, 50));
    assertThat(totals.moves().started()).isEqualTo(3);
    assertThat(totals.moves().startedBytes()).isEqualTo(30);
    assertThat(totals.moves().evicted()).isEqualTo(1);
    assertThat(totals.use().byteHitRate()).isEqualTo(10.0 / 60);
    assertThat(totals.bytesPerToken()).isEqualTo((50 + 30) / 3.0);
  }

  @Test
  void theSnapshotShowsWhatThePolicyMayKnow() {
    List<ResidencySnapshot> seen = new ArrayList<>();
    boundary =
        boundary(
            500,
            snapshot -> {
              seen.add(snapshot);
              return keys(0, 1);
            });
    boundary.arm();
    run(1, 0);
    run(1, 2);
    run(3, 2);
    ResidencySnapshot last = seen.getLast();
    assertThat(last.boundary()).isEqualTo(2);
    assertThat(last.budgetBytes()).isEqualTo(32);
    assertThat(last.byteCap()).isEqualTo(500);
    assertThat(last.tokens()).isEqualTo(1);
    assertThat(last.state(1)).isEqualTo(ResidencyState.RESIDENT);
    assertThat(last.residentFor(1)).isEqualTo(1);
    assertThat(last.residentFor(0)).isZero();
    assertThat(last.lastUse(1)).isEqualTo(1);
    assertThat(last.lastUse(3)).isEqualTo(2);
    assertThat(last.lastUse(0)).isEqualTo(ResidencySnapshot.NEVER);
    assertThat(last.count(3)).isEqualTo(1);
    assertThat(last.count(1)).isZero();
    assertThat(last.usesPerRow(1)).isGreaterThan(last.usesPerRow(3)).isGreaterThan(0);
    assertThat(seen.get(1).state(1)).isEqualTo(ResidencyState.FILLING);
    assertThat(seen.get(1).isHeld(1)).isTrue();
  }
}
