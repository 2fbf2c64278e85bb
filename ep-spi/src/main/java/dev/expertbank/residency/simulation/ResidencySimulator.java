package dev.expertbank.residency.simulation;

import dev.expertbank.residency.ExpertKey;
import dev.expertbank.residency.HeatTable;
import dev.expertbank.residency.ResidencyActions;
import dev.expertbank.residency.ResidencyBoundary;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyLedger;
import dev.expertbank.residency.ResidencyOutcome;
import dev.expertbank.residency.ResidencyOutcome.WindowUse;
import dev.expertbank.residency.ResidencyPolicy;
import dev.expertbank.residency.RouteWindow;
import dev.expertbank.residency.RouteWindowSource;
import dev.expertbank.residency.SafePoint;
import java.util.Arrays;
import java.util.List;

/**
 * Runs a trace through the ledger, the boundary and a policy: the same code and the same accounting
 * as a live bank, with copies that always arrive.
 *
 * <p>As there, everything is cold at first, the first fills start at the boundary after the first
 * window and hit from the third window on, and every policy pays for its fills.
 */
public final class ResidencySimulator implements RouteWindowSource {
  private static final RouteWindow.Owner OWNER = new RouteWindow.Owner(0, 0);

  private final ResidencyBoundary boundary;
  private long epoch;
  private int next;
  private final List<RouteTrace.Window> windows;

  private ResidencySimulator(RouteTrace trace, Bank bank) {
    windows = trace.windows();
    boundary =
        new ResidencyBoundary(
            new ResidencyLedger(bank.layout(), bank.budgetBytes()),
            bank.heat(),
            bank.policy(),
            new ResidencyBoundary.Settings(OWNER, bank.byteCap()),
            this,
            new Bookkeeping());
  }

  /**
   * What is simulated.
   *
   * @param byteCap expert bytes that may be copied at one boundary
   * @param heat what is known before; the simulation adds to it
   */
  public record Bank(
      ResidencyLayout layout,
      long budgetBytes,
      long byteCap,
      HeatTable heat,
      ResidencyPolicy policy) {

    /** A bank without a cap that knows nothing. */
    public Bank(ResidencyLayout layout, long budgetBytes, ResidencyPolicy policy) {
      this(
          layout,
          budgetBytes,
          Long.MAX_VALUE,
          new HeatTable(layout, HeatTable.Settings.DEFAULT),
          policy);
    }
  }

  /**
   * Simulates a trace.
   *
   * @throws IllegalArgumentException if the trace is not of the bank's layout
   * @throws IllegalStateException if a window was not applied, with the reason
   */
  public static SimulationResult run(RouteTrace trace, Bank bank) {
    checkLayout(trace, bank.layout());
    return new ResidencySimulator(trace, bank).run();
  }

  static void checkLayout(RouteTrace trace, ResidencyLayout layout) {
    if (!layout.layers().stream().map(layer -> layer.experts()).toList().equals(trace.experts())
        || !layout.layers().stream().map(layer -> layer.topK()).toList().equals(trace.topK())) {
      throw new IllegalArgumentException("the trace is not of a model with this layout");
    }
  }

  private SimulationResult run() {
    WindowUse prefill = WindowUse.NONE;
    WindowUse decode = WindowUse.NONE;
    boundary.arm();
    for (RouteTrace.Window window : windows) {
      ResidencyOutcome outcome = boundary.consume(() -> SafePoint.CLEAR);
      if (!(outcome instanceof ResidencyOutcome.Applied applied)) {
        throw new IllegalStateException("window " + (next - 1) + ": " + outcome);
      }
      switch (window.phase()) {
        case PREFILL -> prefill = prefill.plus(applied.use());
        case DECODE -> decode = decode.plus(applied.use());
      }
    }
    return new SimulationResult(prefill, decode, boundary.totals().moves());
  }

  @Override
  public RouteWindow read() {
    RouteTrace.Window window = windows.get(next++);
    long routes = Arrays.stream(window.counts()).flatMapToInt(Arrays::stream).asLongStream().sum();
    int[] header = new int[RouteWindow.Header.LENGTH];
    header[RouteWindow.Header.EPOCH.index()] = (int) epoch;
    header[RouteWindow.Header.COUNT.index()] = Math.toIntExact(routes);
    return new RouteWindow(header, window.counts(), window.rows());
  }

  @Override
  public void reset(long nextEpoch) {
    epoch = nextEpoch;
  }

  /** Copies that take no time and never fail. */
  private static final class Bookkeeping implements ResidencyActions {
    @Override
    public FillStart startFill(ExpertKey key) {
      return FillStart.STARTED;
    }

    @Override
    public FillEnd awaitFill(ExpertKey key) {
      return FillEnd.COMPLETED;
    }

    @Override
    public void publish(ExpertKey key) {}

    @Override
    public void unpublish(ExpertKey key) {}
  }
}
