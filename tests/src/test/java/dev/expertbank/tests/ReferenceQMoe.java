package dev.expertbank.tests;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * What {@code com.microsoft::QMoE} and {@code com.microsoft::MoE} compute, in double precision and
 * without rounding in between, but for the differences of logits (see {@link Routing}).
 *
 * <p>Written from the operator's definition alone and shares no code with the product, so that an
 * agreement of the two means something. Weights are read in the plain layout: {@code [experts,
 * outputs, inputs]} row-major, packed along inputs, low bits first.
 */
final class ReferenceQMoe {
  /**
   * @param output {@code [rows, hidden]}
   * @param routes per row
   */
  record Result(List<Double> output, List<List<Route>> routes) {
    double largestMagnitude() {
      return output.stream().mapToDouble(Math::abs).max().orElse(0);
    }
  }

  /** Tanh approximation of gelu, with the constants that ONNX Runtime's kernels have. */
  private static final double GELU_SQRT_2_OVER_PI = 0.7978845608;

  private static final double GELU_CUBIC = 0.044715;

  private final MoeNode node;
  private final int hidden;
  private final int inter;
  private final String activation;
  private final int fusion;
  private final Projection fc1;
  private final Projection fc2;
  private final @Nullable Projection fc3;

  private ReferenceQMoe(MoeNode node) {
    this.node = node;
    this.hidden = node.required(MoeNode.INPUT).dimension(-1);
    int experts = node.required(MoeNode.ROUTER_PROBS).dimension(-1);
    this.activation = node.text("activation_type", "relu").toLowerCase(Locale.ROOT);
    this.fusion = activation.equals("swiglu") ? (int) node.integer("swiglu_fusion", 0) : 0;
    TensorData fc2Weights = node.required(node.quantized() ? 5 : 4);
    int valuesPerByte = node.quantized() ? 8 / (int) node.integer("expert_weight_bits", 4) : 1;
    this.inter = fc2Weights.dimension(1) * fc2Weights.dimension(2) * valuesPerByte / hidden;
    this.fc1 = Projection.of(node, 1, experts, fusion == 0 ? inter : 2 * inter, hidden);
    this.fc2 = Projection.of(node, 2, experts, hidden, inter);
    this.fc3 =
        node.input(node.quantized() ? 8 : 6).isPresent()
            ? Projection.of(node, 3, experts, inter, hidden)
            : null;
  }

  static Result evaluate(MoeNode node, Routing routing) {
    return new ReferenceQMoe(node).run(routes(node, routing));
  }

  /** The routes of every row, without those that the kernel ignores. */
  private static List<List<Route>> routes(MoeNode node, Routing routing) {
    TensorData router = node.required(MoeNode.ROUTER_PROBS);
    int experts = router.dimension(-1);
    double[] logits = router.values();
    double @Nullable [] mixing =
        node.quantized()
            ? node.input(MoeNode.ROUTER_WEIGHTS).map(TensorData::values).orElse(null)
            : null;
    List<List<Route>> routes = new ArrayList<>();
    for (int row = 0; row < logits.length / experts; row++) {
      routes.add(
          routing
              .routes(
                  slice(logits, row, experts),
                  mixing == null ? null : slice(mixing, row, experts),
                  (int) node.integer("k", 1),
                  node.integer("normalize_routing_weights", 0) == 1)
              .stream()
              .filter(routing::contributes)
              .toList());
    }
    return routes;
  }

  private Result run(List<List<Route>> routes) {
    double[] input = node.required(MoeNode.INPUT).values();
    List<Double> output = new ArrayList<>();
    for (int row = 0; row < routes.size(); row++) {
      double[] sum = new double[hidden];
      for (Route route : routes.get(row)) {
        double[] expertOutput = expert(route.expert(), slice(input, row, hidden));
        for (int h = 0; h < hidden; h++) {
          sum[h] += route.weight() * expertOutput[h];
        }
      }
      for (double value : sum) {
        output.add(value);
      }
    }
    return new Result(output, routes);
  }

  private double[] expert(int expert, double[] input) {
    double[] first = fc1.apply(expert, input);
    double @Nullable [] third = fc3 == null ? null : fc3.apply(expert, input);
    double[] activated = new double[inter];
    for (int i = 0; i < inter; i++) {
      activated[i] =
          switch (fusion) {
            case 0 -> third == null ? activate(first[i]) : gated(first[i], third[i]);
            case 1 -> swiglu(first[2 * i], first[2 * i + 1]);
            case 2 -> swiglu(first[i], first[inter + i]);
            default -> throw new IllegalArgumentException("swiglu_fusion " + fusion);
          };
    }
    return fc2.apply(expert, activated);
  }

  private double gated(double gate, double linear) {
    return activation.equals("swiglu") ? swiglu(gate, linear) : activate(gate) * linear;
  }

  private double activate(double x) {
    return switch (activation) {
      case "relu" -> Math.max(x, 0);
      case "gelu" -> 0.5 * x * (1 + Math.tanh(GELU_SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x)));
      case "silu" -> x * sigmoid(x);
      case "identity" -> x;
      default -> throw new IllegalArgumentException("activation " + activation + " on one value");
    };
  }

  private double swiglu(double gate, double linear) {
    double limit = node.real("swiglu_limit", Float.POSITIVE_INFINITY);
    double clampedGate = Math.min(gate, limit);
    double clampedLinear = Math.max(-limit, Math.min(linear, limit));
    return clampedGate
        * sigmoid(node.real("activation_alpha", 1) * clampedGate)
        * (clampedLinear + node.real("activation_beta", 0));
  }

  private static double sigmoid(double x) {
    return 1 / (1 + Math.exp(-x));
  }

  private static double[] slice(double[] values, int row, int width) {
    return Arrays.copyOfRange(values, row * width, (row + 1) * width);
  }

  /** One of fc1, fc2, fc3 for all experts: {@code y = W x + b}. */
  private static final class Projection {
    private final int outputs;
    private final int inputs;
    private final double[] weights;
    private final double @Nullable [] bias;

    private Projection(int outputs, int inputs, double[] weights, double @Nullable [] bias) {
      this.outputs = outputs;
      this.inputs = inputs;
      this.weights = weights;
      this.bias = bias;
    }

    /**
     * @param number 1, 2 or 3 for fc1, fc2, fc3
     */
    static Projection of(MoeNode node, int number, int experts, int outputs, int inputs) {
      int weightSlot = node.quantized() ? 3 * number - 1 : 2 * number;
      int biasSlot = node.quantized() ? weightSlot + 2 : weightSlot + 1;
      double[] weights =
          node.quantized()
              ? dequantized(node, number, experts, outputs, inputs)
              : node.required(weightSlot).values();
      if (weights.length != experts * outputs * inputs) {
        throw new IllegalArgumentException(
            "fc"
                + number
                + " weights "
                + node.required(weightSlot)
                + " are not "
                + outputs
                + " x "
                + inputs);
      }
      return new Projection(
          outputs, inputs, weights, node.input(biasSlot).map(TensorData::values).orElse(null));
    }

    double[] apply(int expert, double[] x) {
      double[] y = new double[outputs];
      for (int n = 0; n < outputs; n++) {
        int weightRow = (expert * outputs + n) * inputs;
        double sum = 0;
        for (int k = 0; k < inputs; k++) {
          sum += weights[weightRow + k] * x[k];
        }
        y[n] = bias == null ? sum : sum + bias[expert * outputs + n];
      }
      return y;
    }

    private static double[] dequantized(
        MoeNode node, int number, int experts, int outputs, int inputs) {
      int bits = (int) node.integer("expert_weight_bits", 4);
      TensorData packed = node.required(3 * number - 1);
      TensorData scales = node.required(3 * number);
      @Nullable TensorData zeroPoints = node.input(10 + number).orElse(null);
      int blocks = scales.rank() == 3 ? scales.dimension(2) : 1;
      int blockSize = blocks == 1 ? inputs : (int) node.integer("block_size", 0);
      if (blocks != Math.ceilDiv(inputs, blockSize)) {
        throw new IllegalArgumentException("fc" + number + " scales " + scales);
      }
      if (packed.elements() * (8 / bits) != experts * outputs * inputs) {
        throw new IllegalArgumentException("fc" + number + " weights " + packed);
      }
      double[] weights = new double[experts * outputs * inputs];
      for (int row = 0; row < experts * outputs; row++) {
        for (int k = 0; k < inputs; k++) {
          int block = k / blockSize;
          double zeroPoint =
              zeroPoints == null
                  ? 1 << (bits - 1)
                  : zeroPoint(zeroPoints, bits, row, outputs, block, blocks);
          double steps = unpacked(packed, bits, row * (inputs * bits / 8), k) - zeroPoint;
          weights[row * inputs + k] = scales.get(row * blocks + block) * steps;
        }
      }
      return weights;
    }

    /** A zero point per output row is packed along rows; one per block along the row's blocks. */
    private static int zeroPoint(
        TensorData zeroPoints, int bits, int row, int outputs, int block, int blocks) {
      int valuesPerByte = 8 / bits;
      return zeroPoints.rank() == 2
          ? unpacked(
              zeroPoints, bits, row / outputs * Math.ceilDiv(outputs, valuesPerByte), row % outputs)
          : unpacked(zeroPoints, bits, row * Math.ceilDiv(blocks, valuesPerByte), block);
    }

    private static int unpacked(TensorData packed, int bits, int firstByte, int index) {
      int valuesPerByte = 8 / bits;
      int value = (int) packed.get(firstByte + index / valuesPerByte);
      return (value >> (index % valuesPerByte * bits)) & ((1 << bits) - 1);
    }
  }
}
