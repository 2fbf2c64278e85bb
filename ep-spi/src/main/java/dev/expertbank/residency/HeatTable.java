package dev.expertbank.residency;

import java.util.Arrays;

/**
 * How much every expert is used: its routes per row, decayed from window to window.
 *
 * <p>A window adds {@code weight · routes / rows} to an expert, so that all experts of a layer
 * together get {@code weight · topK}, however long the window is. The weight is the number of rows,
 * but at most {@link Settings#heaviestWindow}: a long prompt tells more than one token, yet cannot
 * drown what decoding has shown. Before that, what was there is multiplied with {@link
 * Settings#decay} once for each unit of weight.
 *
 * <p>Confined to whoever holds the boundary.
 */
public final class HeatTable {
  private final ResidencyLayout layout;
  private final Settings settings;
  private final double[] heat;
  private final long[] lastUse;

  /**
   * How fast heat fades.
   *
   * @param decay what remains after a window of one row, above 0 and at most 1
   * @param heaviestWindow the most rows that one window counts for, at least 1
   */
  public record Settings(double decay, double heaviestWindow) {
    public static final Settings DEFAULT = new Settings(0.98, 16);

    public Settings {
      if (!(decay > 0 && decay <= 1) || !(heaviestWindow >= 1)) {
        throw new IllegalArgumentException(
            "decay " + decay + ", heaviest window " + heaviestWindow);
      }
    }
  }

  /** Nothing was ever used. */
  public HeatTable(ResidencyLayout layout, Settings settings) {
    this.layout = layout;
    this.settings = settings;
    heat = new double[layout.keys().size()];
    lastUse = new long[heat.length];
    Arrays.fill(lastUse, ResidencySnapshot.NEVER);
  }

  /**
   * Adds a window that {@link RouteWindows#validate} has no finding for.
   *
   * @param boundary where the window ended
   */
  public void add(RouteWindow window, long boundary) {
    double weight = Math.min((double) window.tokens(), settings.heaviestWindow());
    double decay = Math.pow(settings.decay(), weight);
    int index = 0;
    for (int layer = 0; layer < layout.layers().size(); layer++) {
      LayerLayout shape = layout.layer(layer);
      double rows = (double) window.routes(layer) / shape.topK();
      for (int expert = 0; expert < shape.experts(); expert++, index++) {
        heat[index] *= decay;
        long count = window.count(layer, expert);
        if (count > 0) {
          heat[index] += weight * count / rows;
          lastUse[index] = boundary;
        }
      }
    }
  }

  /** A copy of the heat of every expert, by index. */
  public double[] heat() {
    return heat.clone();
  }

  /** A copy of the last boundary before which each expert was used, by index. */
  long[] lastUse() {
    return lastUse.clone();
  }
}
