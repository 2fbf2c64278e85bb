package dev.expertbank.residency;

import java.util.ArrayList;
import java.util.List;

/**
 * The order in which items stream through two buffers, so that one is copied while the one before
 * is computed on.
 *
 * <p>Whoever follows it makes a prefetch wait until the computation that used its buffer before has
 * ended.
 */
public final class DoubleBufferPlan {
  private static final int BUFFERS = 2;

  private DoubleBufferPlan() {}

  /** One step; items count from 0, buffers are 0 and 1. */
  public sealed interface Step {
    /** Start the copy of an item into a buffer. */
    record Prefetch(int item, int buffer) implements Step {}

    /** Wait until the copy of an item has ended. */
    record Await(int item) implements Step {}

    /** Compute on an item in a buffer. */
    record Compute(int item, int buffer) implements Step {}
  }

  /** The steps for a number of items, which is not negative. */
  public static List<Step> plan(int items) {
    if (items < 0) {
      throw new IllegalArgumentException(items + " items");
    }
    List<Step> steps = new ArrayList<>();
    if (items > 0) {
      steps.add(new Step.Prefetch(0, 0));
    }
    for (int item = 0; item < items; item++) {
      if (item + 1 < items) {
        steps.add(new Step.Prefetch(item + 1, (item + 1) % BUFFERS));
      }
      steps.add(new Step.Await(item));
      steps.add(new Step.Compute(item, item % BUFFERS));
    }
    return List.copyOf(steps);
  }
}
