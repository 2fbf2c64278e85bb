package dev.expertbank.tests;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/** How an ONNX Runtime kernel chooses and weighs experts, in double precision. */
enum Routing {
  /** Softmax over the selected logits; the higher index wins a tie. */
  ORT_CPU_QMOE(true),
  /** Softmax over all logits; the higher index wins a tie. */
  ORT_CPU_MOE(true),
  /** QMoE and MoE on CUDA: softmax over all logits; the lower index wins a tie. */
  ORT_CUDA(false);

  /** The CPU kernel of QMoE ignores routes that do not weigh more than this. */
  private static final double CPU_QMOE_SMALLEST_WEIGHT = 1e-8;

  /** The CUDA kernels do not normalise by a smaller sum. */
  private static final double CUDA_SMALLEST_SUM = 1e-6;

  private final boolean higherIndexFirst;

  Routing(boolean higherIndexFirst) {
    this.higherIndexFirst = higherIndexFirst;
  }

  /**
   * The routes of one row, best logit first, including those that add nothing.
   *
   * @param logits {@code [experts]}
   * @param mixing the row of {@code router_weights}, {@code [experts]}, or null
   */
  List<Route> routes(double[] logits, double @Nullable [] mixing, int topK, boolean normalize) {
    Comparator<Integer> tieOrder =
        higherIndexFirst ? Comparator.reverseOrder() : Comparator.naturalOrder();
    List<Integer> selected =
        IntStream.range(0, logits.length)
            .boxed()
            .sorted(Comparator.comparingDouble((Integer e) -> -logits[e]).thenComparing(tieOrder))
            .limit(topK)
            .toList();
    double[] weights =
        switch (this) {
          case ORT_CPU_QMOE ->
              mixing == null
                  ? softmax(logits, selected, selected)
                  : gathered(mixing, selected, normalize);
          case ORT_CPU_MOE, ORT_CUDA -> {
            List<Integer> all = IntStream.range(0, logits.length).boxed().toList();
            double[] probabilities = softmax(logits, selected, all);
            yield normalize ? normalized(probabilities) : probabilities;
          }
        };
    List<Route> routes = new ArrayList<>();
    for (int i = 0; i < selected.size(); i++) {
      routes.add(new Route(selected.get(i), weights[i]));
    }
    return routes;
  }

  /** Whether the kernel adds the expert's output at all. */
  boolean contributes(Route route) {
    return this != ORT_CPU_QMOE || route.weight() > CPU_QMOE_SMALLEST_WEIGHT;
  }

  /** The operator's routing is float32: differences of logits are rounded to it, nothing else. */
  private static double[] softmax(double[] logits, List<Integer> of, List<Integer> over) {
    float max = (float) over.stream().mapToDouble(e -> logits[e]).max().orElseThrow();
    double sum = over.stream().mapToDouble(e -> exponential(logits[e], max)).sum();
    return of.stream().mapToDouble(e -> exponential(logits[e], max) / sum).toArray();
  }

  private static double exponential(double logit, float max) {
    float difference = (float) logit - max;
    return Math.exp(difference);
  }

  private static double[] gathered(double[] mixing, List<Integer> selected, boolean normalize) {
    double[] weights = selected.stream().mapToDouble(e -> mixing[e]).toArray();
    double sum = IntStream.range(0, weights.length).mapToDouble(i -> weights[i]).sum();
    if (normalize) {
      for (int i = 0; i < weights.length; i++) {
        weights[i] = sum == 0 ? 0 : weights[i] / sum;
      }
    }
    return weights;
  }

  private static double[] normalized(double[] probabilities) {
    double sum = IntStream.range(0, probabilities.length).mapToDouble(i -> probabilities[i]).sum();
    return IntStream.range(0, probabilities.length)
        .mapToDouble(i -> sum > CUDA_SMALLEST_SUM ? probabilities[i] / sum : probabilities[i])
        .toArray();
  }
}
