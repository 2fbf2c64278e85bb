package dev.expertbank.residency;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.IntPredicate;
import java.util.function.IntToDoubleFunction;
import java.util.function.IntUnaryOperator;

/**
 * Sorts the experts of a layout by a score that is not negative. Scores are compared as {@code
 * float}; ties keep the order of the layout.
 */
public final class Ranking {
  private Ranking() {}

  /**
   * The experts with a score above 0, the highest first.
   *
   * @param score of an expert, by its index in the layout
   */
  public static List<ExpertKey> descending(ResidencyLayout layout, IntToDoubleFunction score) {
    return sorted(
        layout,
        index -> (float) score.applyAsDouble(index) > 0,
        index -> Integer.MAX_VALUE - bits(score.applyAsDouble(index)));
  }

  /** The experts that are included, the lowest score first. */
  public static List<ExpertKey> ascending(
      ResidencyLayout layout, IntPredicate included, IntToDoubleFunction score) {
    return sorted(layout, included, index -> bits(score.applyAsDouble(index)));
  }

  /** The bits of floats that are not negative are ordered as the floats are. */
  private static int bits(double score) {
    return Float.floatToIntBits((float) score);
  }

  private static List<ExpertKey> sorted(
      ResidencyLayout layout, IntPredicate included, IntUnaryOperator order) {
    List<ExpertKey> keys = layout.keys();
    long[] sorted = new long[keys.size()];
    int count = 0;
    for (int index = 0; index < sorted.length; index++) {
      if (included.test(index)) {
        sorted[count++] = (long) order.applyAsInt(index) << Integer.SIZE | index;
      }
    }
    Arrays.sort(sorted, 0, count);
    List<ExpertKey> result = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      result.add(keys.get((int) sorted[i]));
    }
    return result;
  }
}
