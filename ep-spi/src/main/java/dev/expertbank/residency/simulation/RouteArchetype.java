package dev.expertbank.residency.simulation;

import dev.expertbank.residency.simulation.RouteTrace.Phase;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.SplittableRandom;

/**
 * Draws routes that are as local and as skewed as those of a kind of model, for measurements where
 * no recorded routes are at hand.
 *
 * <p>Each layer has a stack of its experts, those used last on top, and a fixed order of
 * popularity, both shuffled at first. A token draws until it has k different experts: with
 * probability {@code skewShare} the one of popularity rank r, with probability proportional to
 * {@code r^-skewExponent}; else the one at position r of the stack, with probability proportional
 * to {@code (r + localityOffset)^-localityExponent}. Ranks and positions count from 1. Then the
 * token's experts move to the top. So a cache of each layer's last used experts hits as the stack
 * says, and the popular ones add what a fixed set hits.
 *
 * <p>The parameters were fitted to published hit rates of such caches. They know nothing of how
 * layers depend on each other, or of a change of subject.
 *
 * @param name of the kind
 * @param layers of the model that the rates are from
 * @param experts of each layer
 * @param topK different experts of a token in each layer
 */
public record RouteArchetype(
    String name,
    int layers,
    int experts,
    int topK,
    double localityExponent,
    double localityOffset,
    double skewShare,
    double skewExponent) {
  private static final List<RouteArchetype> ALL =
      List.of(
          new RouteArchetype("gpt-oss-20b-like", 24, 32, 4, 4.21, 5.3, 0.11, 1.03),
          new RouteArchetype("granite-like", 24, 32, 8, 4.06, 33.3, 0.48, 1.08),
          new RouteArchetype("qwen3-30b-like", 48, 128, 8, 3.44, 20.6, 0.42, 1.28),
          new RouteArchetype("qwen3.8-flash-next-like", 48, 512, 10, 2.42, 32.1, 0.18, 0.48),
          new RouteArchetype("deepseek-v4-flash-like", 43, 256, 6, 0.56, 0.1, 0.88, 1.02));

  public RouteArchetype {
    if (layers < 1 || topK < 1 || topK > experts || !(skewShare >= 0 && skewShare < 1)) {
      throw new IllegalArgumentException(
          "%s: %d layers, %d of %d experts, a part of %s is skewed"
              .formatted(name, layers, topK, experts, skewShare));
    }
  }

  /** Every kind that has been fitted. */
  public static List<RouteArchetype> all() {
    return ALL;
  }

  /** The kind of that name. */
  public static Optional<RouteArchetype> named(String name) {
    return ALL.stream().filter(archetype -> archetype.name.equals(name)).findFirst();
  }

  /** The same locality and skew, for tokens that are routed to another number of experts. */
  public RouteArchetype withTopK(int experts) {
    return new RouteArchetype(
        name,
        layers,
        this.experts,
        experts,
        localityExponent,
        localityOffset,
        skewShare,
        skewExponent);
  }

  /**
   * Draws routes; the same seed gives the same ones on every platform.
   *
   * @return {@code [tokens][layers][top k]}, the experts in the order of their drawing
   */
  public int[][][] routes(int tokens, long seed) {
    SplittableRandom random = new SplittableRandom(seed);
    Layer[] drawing = new Layer[layers];
    for (int layer = 0; layer < layers; layer++) {
      drawing[layer] = new Layer(random.split());
    }
    int[][][] routes = new int[tokens][layers][];
    for (int[][] token : routes) {
      for (int layer = 0; layer < layers; layer++) {
        token[layer] = drawing[layer].token();
      }
    }
    return routes;
  }

  /**
   * Draws a trace: one window for a prompt, then one for each token.
   *
   * @param promptRows rows of the prompt
   */
  public RouteTrace trace(int promptRows, int tokens, long seed) {
    int[][][] routes = routes(promptRows + tokens, seed);
    return new RouteTrace.Builder(
            Collections.nCopies(layers, experts), Collections.nCopies(layers, topK))
        .window(Phase.PREFILL, Arrays.copyOf(routes, promptRows))
        .windowPerRow(Phase.DECODE, Arrays.copyOfRange(routes, promptRows, routes.length))
        .build();
  }

  /** One layer on its way through the tokens. */
  private final class Layer {
    private final SplittableRandom random;
    private final int[] stack;
    private final int[] popularity;
    private final double[] positions;
    private final double[] ranks;

    Layer(SplittableRandom random) {
      this.random = random;
      stack = shuffled();
      popularity = shuffled();
      positions = sums(localityOffset, localityExponent);
      ranks = sums(0, skewExponent);
    }

    private int[] shuffled() {
      int[] order = new int[experts];
      for (int i = 0; i < experts; i++) {
        int j = random.nextInt(i + 1);
        order[i] = order[j];
        order[j] = i;
      }
      return order;
    }

    /** Running sums of the weights of 1, 2, 3 and so on. */
    private double[] sums(double offset, double exponent) {
      double[] sums = new double[experts];
      double sum = 0;
      for (int i = 0; i < experts; i++) {
        sum += StrictMath.pow(i + 1 + offset, -exponent);
        sums[i] = sum;
      }
      return sums;
    }

    int[] token() {
      int[] chosen = new int[topK];
      boolean[] taken = new boolean[experts];
      for (int count = 0; count < topK; ) {
        int expert =
            random.nextDouble() < skewShare ? popularity[draw(ranks)] : stack[draw(positions)];
        if (!taken[expert]) {
          taken[expert] = true;
          chosen[count++] = expert;
        }
      }
      for (int expert : chosen) {
        toTop(expert);
      }
      return chosen;
    }

    private int draw(double[] sums) {
      int found = Arrays.binarySearch(sums, random.nextDouble(sums[experts - 1]));
      return found < 0 ? -found - 1 : found + 1;
    }

    private void toTop(int expert) {
      int at = 0;
      while (stack[at] != expert) {
        at++;
      }
      System.arraycopy(stack, 0, stack, 1, at);
      stack[0] = expert;
    }
  }
}
