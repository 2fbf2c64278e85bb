package dev.expertbank.residency;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.residency.ResidencyActions.FillEnd;
import dev.expertbank.residency.ResizeOutcome.Extent;
import dev.expertbank.residency.ResizeRejection.ExecutionFailed;
import dev.expertbank.residency.ResizeRejection.NoOp;
import dev.expertbank.residency.ResizeRejection.NotSafePoint;
import dev.expertbank.residency.ResizeRequest.Direction;
import dev.expertbank.residency.SafePoint.Blocker;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;

/** One layer of ten experts of ten bytes each, all of them wanted, expert 0 the most used. */
class ResizeTest {
  private final ResidencyLayout layout =
      new ResidencyLayout(List.of(LayerLayout.pageable(10, 1, 10, 10)));
  private final ResidencyLedger ledger = new ResidencyLedger(layout, 50);
  private final Windows windows = new Windows(layout);
  private final RecordingActions actions = new RecordingActions();
  private final Pool pool = new Pool(100);
  private final ResidencyBoundary boundary =
      new ResidencyBoundary(
          ledger,
          new HeatTable(layout, HeatTable.Settings.DEFAULT),
          new ResidencyPolicy() {
            @Override
            public String name() {
              return "everything";
            }

            @Override
            public ResidencyDecision decide(ResidencySnapshot snapshot) {
              return new ResidencyDecision(layout.keys());
            }
          },
          new ResidencyBoundary.Settings(Windows.OWNER, 1000),
          windows,
          actions);

  /** Memory that a budget of 50 was taken from; checks that no fill is beyond what was granted. */
  private final class Pool implements BudgetLease {
    private long granted = 50;
    private final long limit;
    private long grantsAtMost = Long.MAX_VALUE;
    private long returnsAtMost = Long.MAX_VALUE;
    private boolean broken;

    Pool(long limit) {
      this.limit = limit;
    }

    @Override
    public long grow(long bytes) {
      if (broken || bytes > limit - granted) {
        throw new IllegalStateException("the pool is exhausted");
      }
      long grant = Math.min(bytes, grantsAtMost);
      granted += grant;
      return grant;
    }

    @Override
    public long shrink(long bytes) {
      if (broken) {
        throw new IllegalStateException("the pool is closed");
      }
      long returned = Math.min(bytes, returnsAtMost);
      granted -= returned;
      assertThat(ledger.committedBytes()).isLessThanOrEqualTo(granted);
      return returned;
    }
  }

  private ResizeOutcome resize(Direction direction, long bytes) {
    return resize(direction, bytes, () -> SafePoint.CLEAR);
  }

  private ResizeOutcome resize(Direction direction, long bytes, Supplier<SafePoint> safePoint) {
    ResizeOutcome outcome = boundary.resize(new ResizeRequest(direction, bytes), safePoint, pool);
    assertThat(outcome.after()).isEqualTo(ledger.budgetBytes()).isEqualTo(pool.granted);
    assertThat(ledger.committedBytes()).isLessThanOrEqualTo(ledger.budgetBytes());
    return outcome;
  }

  private void run(int expert) {
    windows.routeEverywhere(expert);
    assertThat(boundary.consume(() -> SafePoint.CLEAR))
        .isInstanceOf(ResidencyOutcome.Applied.class);
  }

  private void fill() {
    boundary.arm();
    run(0);
    run(0);
    actions.take();
  }

  @Test
  void aResizeByNothingIsNoOpEvenWhereItIsNotSafe() {
    SafePoint unsafe = new SafePoint(true, 1, 1, true, 1);
    ResizeRequest request = new ResizeRequest(Direction.GROW, 0);
    assertThat(ResizePlan.planResize(request, unsafe))
        .isEqualTo(new ResizePlan.Rejected(request, new NoOp()));
    ResizeOutcome outcome =
        resize(
            Direction.GROW,
            0,
            () -> {
              throw new AssertionError("asked for the safe point");
            });
    assertThat(outcome.rejection()).contains(new NoOp());
    assertThat(outcome.extent()).isEqualTo(Extent.NONE);
  }

  @Test
  void thePlanNamesTheMostImportantBlocker() {
    ResizeRequest request = new ResizeRequest(Direction.SHRINK, 10);
    assertThat(ResizePlan.planResize(request, new SafePoint(false, 2, 1, true, 1)))
        .isEqualTo(new ResizePlan.Rejected(request, new NotSafePoint(Blocker.PENDING_FILLS)));
    assertThat(ResizePlan.planResize(request, SafePoint.CLEAR))
        .isEqualTo(new ResizePlan.Accepted(request));
  }

  @Test
  void aRejectedResizeKeepsItsRequestAndChangesNothing() {
    fill();
    ResizeOutcome outcome =
        resize(Direction.SHRINK, 20, () -> new SafePoint(false, 0, 1, false, 0));
    assertThat(outcome.request()).isEqualTo(new ResizeRequest(Direction.SHRINK, 20));
    assertThat(outcome.rejection()).contains(new NotSafePoint(Blocker.RUNS_IN_FLIGHT));
    assertThat(outcome.achievedBytes()).isZero();
    assertThat(actions.take()).isEmpty();
  }

  @Test
  void theSafePointIsAskedAgainAfterThePendingFillsEnded() {
    boundary.arm();
    run(0);
    actions.take();
    List<SafePoint> answers =
        new ArrayList<>(
            List.of(new SafePoint(false, 5, 0, false, 0), new SafePoint(false, 0, 0, false, 1)));
    ResizeOutcome outcome = resize(Direction.SHRINK, 20, answers::removeFirst);
    assertThat(outcome.rejection()).contains(new NotSafePoint(Blocker.ROUTE_GUARDS));
    assertThat(ledger.keysIn(ResidencyState.RESIDENT)).hasSize(5);
    assertThat(ledger.budgetBytes()).isEqualTo(50);
  }

  @Test
  void growthIsUsedByTheNextBoundary() {
    fill();
    ResizeOutcome outcome = resize(Direction.GROW, 20);
    assertThat(outcome.extent()).isEqualTo(Extent.FULL);
    assertThat(outcome.after()).isEqualTo(70);
    run(0);
    assertThat(actions.take()).containsExactly("fill 0.5", "fill 0.6");
  }

  @Test
  void growthThatIsRefusedChangesNothing() {
    fill();
    ResizeOutcome outcome = resize(Direction.GROW, 60);
    assertThat(outcome.extent()).isEqualTo(Extent.NONE);
    assertThat(outcome.rejection())
        .hasValueSatisfying(
            reason ->
                assertThat(((ExecutionFailed) reason).reason()).contains("the pool is exhausted"));
    assertThat(outcome.after()).isEqualTo(50);
  }

  @Test
  void growthThatIsGrantedInPartIsPartial() {
    pool.grantsAtMost = 15;
    ResizeOutcome outcome = resize(Direction.GROW, 20);
    assertThat(outcome.extent()).isEqualTo(Extent.PARTIAL);
    assertThat(outcome.achievedBytes()).isEqualTo(15);
  }

  @Test
  void shrinkingEvictsTheLeastUsedAndNothingComesBack() {
    fill();
    List<Long> budgets = new ArrayList<>();
    actions.onAction = () -> budgets.add(ledger.budgetBytes());
    ResizeOutcome outcome = resize(Direction.SHRINK, 30);
    assertThat(outcome.extent()).isEqualTo(Extent.FULL);
    assertThat(outcome.after()).isEqualTo(20);
    assertThat(actions.take()).containsExactly("unpublish 0.1", "unpublish 0.2", "unpublish 0.3");
    // The limit was lowered before the first eviction.
    assertThat(budgets).containsOnly(20L);
    assertThat(boundary.totals().moves().evicted()).isEqualTo(3);
    run(0);
    assertThat(ledger.committedBytes()).isEqualTo(20);
  }

  @Test
  void shrinkingMoreThanThereIsIsPartial() {
    fill();
    ResizeOutcome outcome = resize(Direction.SHRINK, 80);
    assertThat(outcome.extent()).isEqualTo(Extent.PARTIAL);
    assertThat(outcome.achievedBytes()).isEqualTo(50);
    assertThat(ledger.keysIn(ResidencyState.RESIDENT)).isEmpty();
  }

  @Test
  void quarantineLimitsAShrink() {
    actions.ends.put(new ExpertKey(0, 1), FillEnd.MAY_BE_IN_FLIGHT);
    fill();
    ResizeOutcome outcome = resize(Direction.SHRINK, 50);
    assertThat(outcome.extent()).isEqualTo(Extent.PARTIAL);
    assertThat(outcome.after()).isEqualTo(10);
  }

  @Test
  void anEvictionThatFailsLeavesABudgetThatHoldsWhatIsLeft() {
    fill();
    actions.onAction =
        () -> {
          if (actions.log.size() == 2) {
            throw new IllegalStateException("device is gone");
          }
        };
    ResizeOutcome outcome = resize(Direction.SHRINK, 30);
    assertThat(outcome.extent()).isEqualTo(Extent.PARTIAL);
    assertThat(outcome.after()).isEqualTo(40);
    assertThat(outcome.rejection().orElseThrow()).isInstanceOf(ExecutionFailed.class);
    assertThat(ledger.keysIn(ResidencyState.RESIDENT)).hasSize(4);
  }

  @Test
  void memoryThatCannotBeReturnedStaysInTheBudget() {
    fill();
    pool.returnsAtMost = 10;
    assertThat(resize(Direction.SHRINK, 30).after()).isEqualTo(40);
    pool.broken = true;
    ResizeOutcome outcome = resize(Direction.SHRINK, 30);
    assertThat(outcome.extent()).isEqualTo(Extent.NONE);
    assertThat(outcome.rejection().orElseThrow()).isInstanceOf(ExecutionFailed.class);
  }

  @Test
  void resizesUpAndDownKeepLedgerAndLeaseTogether() {
    fill();
    Random random = new Random(3);
    for (int step = 0; step < 2000; step++) {
      resize(random.nextBoolean() ? Direction.GROW : Direction.SHRINK, random.nextInt(40));
      run(random.nextInt(10));
      assertThat(ledger.committedBytes()).isLessThanOrEqualTo(pool.granted);
    }
  }

  @Test
  void aThousandResizesUnderAGuardAreAllRejectedAndAllAcceptedInTheGaps() {
    fill();
    SafePoint guarded = new SafePoint(false, 0, 0, false, 1);
    for (int step = 0; step < 1000; step++) {
      Direction direction = step % 2 == 0 ? Direction.SHRINK : Direction.GROW;
      assertThat(resize(direction, 10, () -> guarded).extent()).isEqualTo(Extent.NONE);
      assertThat(resize(direction, 10).extent()).isEqualTo(Extent.FULL);
    }
  }
}
