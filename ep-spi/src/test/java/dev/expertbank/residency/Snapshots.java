package dev.expertbank.residency;

import java.util.List;
import java.util.stream.IntStream;

/** Brings a bank into a state and shows it to a policy. */
public final class Snapshots {
  private final ResidencyLedger ledger;
  private final HeatTable heat;
  private final Windows windows;
  private long boundary;

  /** A cold bank whose heat does not fade. */
  public Snapshots(ResidencyLayout layout, long budgetBytes) {
    ledger = new ResidencyLedger(layout, budgetBytes);
    heat = new HeatTable(layout, new HeatTable.Settings(1, 1e9, 1));
    windows = new Windows(layout);
    windows.reset(1);
  }

  /** Makes an expert resident now. */
  public Snapshots resident(int layer, int expert) {
    ledger.startFill(new ExpertKey(layer, expert));
    ledger.publish(new ExpertKey(layer, expert), boundary);
    return this;
  }

  /** One row to the same experts in every layer, as a window of its own. */
  public Snapshots window(int... experts) {
    windows.reset(boundary + 1);
    windows.routeEverywhere(experts);
    heat.add(windows.read(), boundary++);
    return this;
  }

  /** The experts that a policy wants after the last window. */
  public List<ExpertKey> decide(ResidencyPolicy policy) {
    ResidencySnapshot snapshot =
        new ResidencySnapshot(ledger, heat, windows.read(), boundary - 1, Long.MAX_VALUE);
    return policy.decide(snapshot).ranked();
  }

  /** Short for a list of keys, as layer, expert, layer, expert. */
  public static List<ExpertKey> keys(int... layersAndExperts) {
    return IntStream.range(0, layersAndExperts.length / 2)
        .mapToObj(i -> new ExpertKey(layersAndExperts[2 * i], layersAndExperts[2 * i + 1]))
        .toList();
  }
}
