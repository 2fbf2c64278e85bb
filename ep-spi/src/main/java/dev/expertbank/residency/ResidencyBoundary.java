package dev.expertbank.residency;

import dev.expertbank.residency.ResidencyOutcome.Applied;
import dev.expertbank.residency.ResidencyOutcome.Extent;
import dev.expertbank.residency.ResidencyOutcome.Moves;
import dev.expertbank.residency.ResidencyOutcome.WindowUse;
import java.util.BitSet;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * What happens between runs, in this order: safe point, read the window, check it, account for it
 * and add it to the heat, ask the policy, publish the fills that the boundary before has started,
 * evict what has to make room, start new fills, reset the window and advance the epoch.
 *
 * <p>Residency is a function of the windows: nothing depends on when a copy arrives, because the
 * next boundary waits for it. The plan is followed lazily. An expert that the plan leaves out keeps
 * its slot until a fill needs the room; then the one with the least heat by slot byte goes first.
 *
 * <p>Never fails the run before it: what goes wrong is an outcome. Confined to whoever holds the
 * boundary.
 */
public final class ResidencyBoundary {
  private static final ResidencyOutcome DISABLED = new ResidencyOutcome.Disabled();
  private static final long LAST_EPOCH = 0xFFFF_FFFFL;

  private final ResidencyLedger ledger;
  private final ResidencyLayout layout;
  private final HeatTable heat;
  private final ResidencyPolicy policy;
  private final Settings settings;
  private final RouteWindowSource source;
  private final ResidencyMover mover;
  private ResidencyTotals totals = ResidencyTotals.ZERO;
  private boolean armed;
  private long epoch;
  private long boundary;

  /**
   * Which windows count, and how much may move.
   *
   * @param owner whose windows are accepted
   * @param byteCap what the fills that start at one boundary may copy together, in expert bytes
   */
  public record Settings(RouteWindow.Owner owner, long byteCap) {
    public Settings {
      if (byteCap < 0) {
        throw new IllegalArgumentException("a cap of " + byteCap + " bytes");
      }
    }
  }

  /** A disarmed boundary. */
  public ResidencyBoundary(
      ResidencyLedger ledger,
      HeatTable heat,
      ResidencyPolicy policy,
      Settings settings,
      RouteWindowSource source,
      ResidencyActions actions) {
    this.ledger = ledger;
    layout = ledger.layout();
    this.heat = heat;
    this.policy = policy;
    this.settings = settings;
    this.source = source;
    mover = new ResidencyMover(ledger, actions);
  }

  /** Starts with an empty window of epoch 1; what is resident or filling stays so. */
  public void arm() {
    epoch = 1;
    source.reset(epoch);
    armed = true;
  }

  /** From now on boundaries do nothing; what is resident or filling stays so. */
  public void disarm() {
    armed = false;
  }

  public boolean isArmed() {
    return armed;
  }

  /** Sums since this was made. */
  public ResidencyTotals totals() {
    return totals;
  }

  /**
   * Consumes the window that ends here.
   *
   * @param safePoint asked only while armed; if it throws, a capture is taken to be open
   */
  public ResidencyOutcome consume(Supplier<SafePoint> safePoint) {
    if (!armed) {
      return DISABLED;
    }
    ResidencyOutcome outcome =
        read(safePoint)
            .boundaryBlocker()
            .<ResidencyOutcome>map(ResidencyOutcome.RejectedNotSafeBoundary::new)
            .orElseGet(this::consumeWindow);
    totals = totals.plus(outcome);
    return outcome;
  }

  private static SafePoint read(Supplier<SafePoint> safePoint) {
    try {
      return safePoint.get();
    } catch (RuntimeException e) {
      return SafePoint.UNKNOWN;
    }
  }

  /**
   * Changes the budget, armed or not. Comes after {@link #consume} of the same boundary, never
   * between a run and its consumption, which would count as hits what the run has not seen.
   *
   * <p>Publishes the pending fills, so that they are not in the way, and then asks for the safe
   * point again.
   *
   * @param safePoint asked unless there is nothing to do; if it throws, a capture is taken to be
   *     open
   * @param lease where memory comes from and goes to
   */
  public ResizeOutcome resize(
      ResizeRequest request, Supplier<SafePoint> safePoint, BudgetLease lease) {
    ResizeOutcome outcome = tryResize(request, safePoint, lease);
    totals = totals.plus(mover.takeMoves());
    return outcome;
  }

  private ResizeOutcome tryResize(
      ResizeRequest request, Supplier<SafePoint> safePoint, BudgetLease lease) {
    if (request.bytes() == 0) {
      return rejected(request, new ResizeRejection.NoOp());
    }
    Optional<SafePoint.Blocker> blocker = read(safePoint).boundaryBlocker();
    if (blocker.isPresent()) {
      return rejected(request, new ResizeRejection.NotSafePoint(blocker.get()));
    }
    try {
      mover.publishFilled(boundary);
    } catch (RuntimeException e) {
      armed = false;
      return rejected(request, new ResizeRejection.ExecutionFailed(e.toString()));
    }
    return switch (ResizePlan.planResize(request, read(safePoint))) {
      case ResizePlan.Rejected rejected -> rejected(request, rejected.reason());
      case ResizePlan.Accepted accepted ->
          new ResidencyResizer(ledger, mover)
              .execute(accepted.request(), lease, victims(new BitSet(), new BitSet()));
    };
  }

  private ResizeOutcome rejected(ResizeRequest request, ResizeRejection reason) {
    return new ResizeOutcome(
        request, ledger.budgetBytes(), ledger.budgetBytes(), Optional.of(reason));
  }

  private ResidencyOutcome consumeWindow() {
    try {
      RouteWindow window = source.read();
      ResidencyOutcome outcome =
          RouteWindows.validate(window, epoch, settings.owner(), layout)
              .<ResidencyOutcome>map(
                  finding -> new ResidencyOutcome.WholeBank(finding.problem(), finding.detail()))
              .orElseGet(() -> apply(window));
      advance();
      return outcome;
    } catch (RuntimeException e) {
      armed = false;
      totals = totals.plus(mover.takeMoves());
      return new ResidencyOutcome.Failed(e.toString());
    }
  }

  private void advance() {
    if (epoch == LAST_EPOCH) {
      throw new IllegalStateException("the epochs are used up: arm again");
    }
    source.reset(epoch + 1);
    epoch++;
    boundary++;
  }

  private Applied apply(RouteWindow window) {
    WindowUse use = account(window);
    totals = totals.plus(use);
    heat.add(window, boundary);
    if (ledger.isComplete()) {
      // Whatever a policy would say, there is nothing to move: no plan is made.
      return new Applied(epoch, Extent.NOTHING, 0, use, mover.takeMoves(), List.of());
    }
    ResidencyPlan plan =
        ResidencyPlanner.plan(
            policy, new ResidencySnapshot(ledger, heat, window, boundary, settings.byteCap()));
    mover.publishFilled(boundary);
    long requested = follow(plan);
    Moves moves = mover.takeMoves();
    totals = totals.plus(moves);
    return new Applied(
        epoch, extent(requested, moves.startedBytes()), requested, use, moves, plan.degraded());
  }

  private static Extent extent(long requested, long achieved) {
    if (achieved == 0) {
      return Extent.NOTHING;
    }
    return achieved == requested ? Extent.FULL : Extent.PARTIAL;
  }

  /**
   * States change only at boundaries, so they are still those that the runs have seen. Without
   * branches: which experts are used is what a processor cannot foresee.
   */
  private WindowUse account(RouteWindow window) {
    long hits = 0;
    long misses = 0;
    long hitBytes = 0;
    long missedBytes = 0;
    int index = 0;
    for (int layer = 0; layer < layout.layers().size(); layer++) {
      LayerLayout shape = layout.layer(layer);
      int[] counts = window.counts()[layer];
      int used = 0;
      int hit = 0;
      for (int count : counts) {
        int one = count == 0 ? 0 : 1;
        used += one;
        hit += ledger.state(index++) == ResidencyState.RESIDENT ? one : 0;
      }
      hits += hit;
      misses += used - hit;
      hitBytes += hit * shape.expertBytes();
      missedBytes += (used - hit) * shape.expertBytes();
    }
    return new WindowUse(window.tokens(), hits, misses, hitBytes, missedBytes);
  }

  /** Evicts and starts fills; returns the expert bytes that the plan wanted and that were cold. */
  private long follow(ResidencyPlan plan) {
    BitSet kept = degradedLayers(plan);
    long room = ledger.budgetBytes() - ledger.quarantinedBytes() - residentBytes(kept);
    BitSet wanted = new BitSet();
    for (ExpertKey key : plan.ranked()) {
      long slotBytes = layout.layer(key).slotBytes();
      if (slotBytes <= room && ledger.state(key) != ResidencyState.QUARANTINED) {
        room -= slotBytes;
        wanted.set(layout.index(key));
      }
    }
    Iterator<ExpertKey> victims = null;
    long requested = 0;
    long capLeft = settings.byteCap();
    for (ExpertKey key : plan.ranked()) {
      if (!wanted.get(layout.index(key)) || ledger.state(key) != ResidencyState.COLD) {
        continue;
      }
      long bytes = layout.layer(key).expertBytes();
      requested += bytes;
      if (bytes > capLeft) {
        continue;
      }
      if (victims == null) {
        victims = victims(wanted, kept).iterator();
      }
      while (!ledger.fits(key)) {
        mover.evict(victims.next());
      }
      if (mover.startFill(key)) {
        capLeft -= bytes;
      }
    }
    return requested;
  }

  private static BitSet degradedLayers(ResidencyPlan plan) {
    BitSet layers = new BitSet();
    plan.degraded().forEach(degraded -> layers.set(degraded.layer()));
    return layers;
  }

  private long residentBytes(BitSet layers) {
    return ledger.keysIn(ResidencyState.RESIDENT).stream()
        .filter(key -> layers.get(key.layer()))
        .mapToLong(key -> layout.layer(key).slotBytes())
        .sum();
  }

  /** Resident experts that nothing asks to keep, the least valuable first. */
  private List<ExpertKey> victims(BitSet wanted, BitSet keptLayers) {
    double[] uses = heat.usesPerRow();
    return Ranking.ascending(
        layout,
        index ->
            ledger.state(index) == ResidencyState.RESIDENT
                && !wanted.get(index)
                && !keptLayers.get(layout.keys().get(index).layer()),
        index -> uses[index] * layout.layer(layout.keys().get(index)).bytesSavedPerSlotByte());
  }
}
