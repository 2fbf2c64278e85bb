package dev.expertbank.residency;

import java.util.Arrays;

/**
 * How often every expert is used: the part of the rows that are routed to it, as an average in
 * which older windows fade.
 *
 * <p>A window counts for its rows, but at most for {@link Settings#heaviestWindow} of them, so that
 * all experts of a layer together get the same from every long window. A prompt tells what its
 * decoding will use, so it should count for more than one token; but the longer it is the more
 * experts it touches, and it must not drown what decoding shows. Before a window of weight w is
 * added, what was there is multiplied with {@link Settings#decay} to the power of w.
 *
 * <p>Confined to whoever holds the boundary.
 */
public final class HeatTable {
  private final ResidencyLayout layout;
  private final Settings settings;
  private final double[] heat;
  private final long[] lastUse;
  private double weight;

  /**
   * How windows are weighed.
   *
   * @param decay what remains of the heat after a window of one row, above 0 and at most 1
   * @param heaviestWindow the most rows that one window counts for, at least 1
   * @param profileWeight the rows that a profile counts for, above 0
   */
  public record Settings(double decay, double heaviestWindow, double profileWeight) {
    /**
     * Half of the heat is of the last 69 rows. On recorded routes of a model with 24 layers of 32
     * experts, at a budget of 25 %, windows of at most 1, 8, 16, 32 and 64 rows cost 85.6, 82.9,
     * 81.3, 80.5 and 80.4 MiB per token; profiles of 16, 32 and 64 rows cost 79.9, 79.9 and 81.3.
     */
    public static final Settings DEFAULT = new Settings(0.99, 32, 16);

    public Settings {
      if (!(decay > 0 && decay <= 1) || !(heaviestWindow >= 1) || !(profileWeight > 0)) {
        throw new IllegalArgumentException(
            "decay %s, heaviest window %s, profile weight %s"
                .formatted(decay, heaviestWindow, profileWeight));
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
   * Starts from what a profile says.
   *
   * @param profile of the same layout
   */
  public HeatTable(ResidencyLayout layout, Settings settings, HeatProfile profile) {
    this(layout, settings);
    weight = settings.profileWeight();
    for (int index = 0; index < heat.length; index++) {
      heat[index] = weight * profile.usesPerRow(index);
    }
  }

  /**
   * Adds a window that {@link RouteWindows#validate} has no finding for.
   *
   * @param boundary where the window ended
   */
  public void add(RouteWindow window, long boundary) {
    double added = Math.min((double) window.tokens(), settings.heaviestWindow());
    double decay = Math.pow(settings.decay(), added);
    weight = weight * decay + added;
    for (int index = 0; index < heat.length; index++) {
      heat[index] *= decay;
    }
    int index = 0;
    for (int layer = 0; layer < layout.layers().size(); layer++) {
      LayerLayout shape = layout.layer(layer);
      double rows = (double) window.routes(layer) / shape.topK();
      for (int expert = 0; expert < shape.experts(); expert++, index++) {
        long count = window.count(layer, expert);
        if (count > 0) {
          heat[index] += added * count / rows;
          lastUse[index] = boundary;
        }
      }
    }
  }

  /** The part of the rows that is routed to each expert, 0 to 1, by index; a copy. */
  public double[] usesPerRow() {
    double[] uses = new double[heat.length];
    if (weight > 0) {
      for (int index = 0; index < uses.length; index++) {
        uses[index] = Math.min(1, heat[index] / weight);
      }
    }
    return uses;
  }

  /** What to save, so that another bank of the same model can start from it. */
  public HeatProfile profile() {
    return new HeatProfile(layout, usesPerRow());
  }

  /** The last boundary before which each expert was used, by index; a copy. */
  long[] lastUse() {
    return lastUse.clone();
  }
}
