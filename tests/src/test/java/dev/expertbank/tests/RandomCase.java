package dev.expertbank.tests;

import dev.expertbank.model.Sm80Encoder;
import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.qmoe.WeightLayout;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.function.DoubleSupplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * A QMoE node drawn from everything that the operator allows, small enough to evaluate in double
 * precision. The seed alone determines it.
 *
 * @param oddSlot a weight to store at an odd file offset
 */
record RandomCase(long seed, MoeNode node, Routing routing, int oddSlot) {
  private static final List<ElementType> FLOATING =
      List.of(ElementType.FLOAT, ElementType.FLOAT16, ElementType.BFLOAT16);
  private static final List<Integer> ROWS = List.of(0, 1, 2, 3, 5, 8, 17, 33, 70);
  private static final List<Integer> BLOCK_SIZES = List.of(0, 0, 16, 16, 32, 64, 128);

  private static final List<Integer> SM80_BLOCK_SIZES =
      BLOCK_SIZES.stream()
          .filter(size -> size == 0 || size >= WeightLayout.SM80_MIN_BLOCK)
          .toList();
  private static final int MAX_WIDTH = 80;
  private static final int MAX_EXPERTS = 9;

  /** Widths of {@link #sm80} are multiples of it, and at most three times it. */
  private static final int SM80_TILE = 64;

  static RandomCase of(long seed) {
    return new Generator(seed, false).generate();
  }

  /**
   * A node whose weights are in the layout of {@link Sm80Layout}, in either of their shapes; where
   * CUDA's rules apply it may leave that unsaid.
   */
  static RandomCase sm80(long seed) {
    return new Generator(seed, true).generate();
  }

  @Override
  public String toString() {
    return "seed "
        + seed
        + " "
        + routing
        + " "
        + node.required(MoeNode.INPUT)
        + " experts "
        + node.required(MoeNode.ROUTER_PROBS).dimension(-1)
        + " scales "
        + node.required(3)
        + " "
        + attributeText();
  }

  private String attributeText() {
    return new TreeMap<>(node.attributes())
        .entrySet().stream()
            .map(
                attribute ->
                    attribute.getKey()
                        + "="
                        + switch (attribute.getValue()) {
                          case AttributeValue.IntValue(long value) -> value;
                          case AttributeValue.FloatValue(float value) -> value;
                          case AttributeValue.StringValue(String value) -> value;
                          default -> attribute.getValue();
                        })
            .collect(Collectors.joining(" "));
  }

  private static final class Generator {
    private final long seed;
    private final Random random;
    private final Map<String, AttributeValue> attributes = new HashMap<>();
    private final @Nullable TensorData[] inputs = new @Nullable TensorData[15];

    private final int bits;
    private final int experts;
    private final int topK;
    private final int hidden;
    private final int inter;
    private final int blockSize;
    private final ElementType ioType;
    private final ElementType scaleType;
    private final Routing routing;
    private final boolean sm80;
    private final boolean transposed;

    Generator(long seed, boolean sm80) {
      this.seed = seed;
      // The first choice is between two, and Random's first bit is the same for all small seeds.
      this.random = new Random(sm80 ? new SplittableRandom(seed).nextLong() : seed);
      this.sm80 = sm80;
      this.bits = pick(sm80 ? List.of(4, 8) : List.of(2, 4, 8));
      this.experts = 1 + random.nextInt(MAX_EXPERTS);
      this.topK = chance(4) ? experts : 1 + random.nextInt(experts);
      this.hidden = width();
      this.inter = width();
      this.blockSize = pick(sm80 ? SM80_BLOCK_SIZES : BLOCK_SIZES);
      this.ioType = pick(FLOATING);
      this.scaleType = pick(FLOATING);
      this.routing = chance(3) ? Routing.ORT_CUDA : Routing.ORT_CPU_QMOE;
      this.transposed = sm80 && chance(2);
    }

    RandomCase generate() {
      int rows = pick(ROWS);
      inputs[MoeNode.INPUT] = activations(rows);
      inputs[MoeNode.ROUTER_PROBS] =
          TensorData.of(ioType, new long[] {rows, experts}, logits(rows));
      if (chance(4)) {
        inputs[MoeNode.ROUTER_WEIGHTS] =
            TensorData.of(ioType, new long[] {rows, experts}, routerWeights(rows));
      }
      setInt("expert_weight_bits", bits);
      setInt("k", topK);
      if (sm80) {
        if (routing != Routing.ORT_CUDA || chance(2)) {
          setInt("weights_prepacked", 1);
        }
      } else if (routing == Routing.ORT_CUDA) {
        setInt("weights_prepacked", 0);
      }
      if (!chance(3)) {
        setInt("normalize_routing_weights", random.nextInt(2));
      }
      if (blockSize > 0) {
        setInt("block_size", blockSize);
      }
      String activation = pick(List.of("relu", "gelu", "silu", "identity", "swiglu", "swiglu"));
      attributes.put("activation_type", new AttributeValue.StringValue(activation));
      int fusion = 0;
      if (activation.equals("swiglu")) {
        fusion = random.nextInt(3);
        setInt("swiglu_fusion", fusion);
        addSwigluParameters();
      }
      boolean withZeroPoints = chance(2);
      projection(1, fusion == 0 ? inter : 2 * inter, hidden, withZeroPoints);
      projection(2, hidden, inter, withZeroPoints);
      if (fusion == 0 && (activation.equals("swiglu") || chance(4))) {
        projection(3, inter, hidden, withZeroPoints);
      }
      MoeNode node = new MoeNode("QMoE", attributes, Arrays.asList(inputs));
      return new RandomCase(seed, node, routing, pick(node.weightSlots()));
    }

    private void addSwigluParameters() {
      if (chance(2)) {
        setFloat("activation_alpha", 0.5f + random.nextFloat(1.5f));
        setFloat("activation_beta", random.nextFloat(2f) - 1);
      }
      if (chance(2)) {
        setFloat("swiglu_limit", 0.25f + random.nextFloat(4f));
      }
    }

    private TensorData activations(int rows) {
      long[] shape =
          rows == 0 || chance(2)
              ? new long[] {rows, hidden}
              : rows % 2 == 0 ? new long[] {2, rows / 2, hidden} : new long[] {1, rows, hidden};
      return TensorData.of(ioType, shape, fill(rows * hidden, random::nextGaussian));
    }

    /**
     * Multiples of 1/8, so that equal logits are frequent and different ones are never close; some
     * are masked with minus infinity, and at least one per row is not.
     */
    private double[] logits(int rows) {
      double scale = chance(8) ? 64 : 1;
      double[] logits = fill(rows * experts, () -> scale * (random.nextInt(33) - 16) / 8);
      if (chance(3)) {
        for (int row = 0; row < rows; row++) {
          int kept = random.nextInt(experts);
          for (int e = 0; e < experts; e++) {
            if (e != kept && chance(2)) {
              logits[row * experts + e] = Double.NEGATIVE_INFINITY;
            }
          }
        }
      }
      return logits;
    }

    /** Multiples of 1/8 of both signs, whose sums are exact and often zero; some rows are zero. */
    private double[] routerWeights(int rows) {
      double[] weights = new double[rows * experts];
      for (int row = 0; row < rows; row++) {
        boolean zero = chance(6);
        for (int e = 0; e < experts; e++) {
          weights[row * experts + e] = zero ? 0 : (random.nextInt(9) - 2) / 8.0;
        }
      }
      return weights;
    }

    private void projection(int number, int outputs, int inputsPerRow, boolean withZeroPoints) {
      int weightSlot = 3 * number - 1;
      int valuesPerByte = 8 / bits;
      boolean blockWise = blockSize > 0 && blockSize < Math.max(hidden, inter);
      int blocks = blockWise ? Math.ceilDiv(inputsPerRow, blockSize) : 1;
      TensorData weights = packed(new long[] {experts, outputs, inputsPerRow / valuesPerByte});
      inputs[weightSlot] = sm80 ? swizzled(weights, outputs, inputsPerRow) : weights;
      long[] scaleShape =
          blockWise || chance(3)
              ? new long[] {experts, outputs, blocks}
              : new long[] {experts, outputs};
      double unit = 1 / ((1 << (bits - 1)) * Math.sqrt(inputsPerRow));
      inputs[weightSlot + 1] =
          TensorData.of(
              scaleType, scaleShape, fill(experts * outputs * blocks, () -> unit * scale()));
      if (chance(2)) {
        inputs[weightSlot + 2] =
            TensorData.of(
                ioType,
                new long[] {experts, outputs},
                fill(experts * outputs, () -> random.nextGaussian() / 4));
      }
      if (withZeroPoints && !chance(3)) {
        inputs[10 + number] =
            packed(
                blockWise
                    ? new long[] {experts, outputs, Math.ceilDiv(blocks, valuesPerByte)}
                    : new long[] {experts, Math.ceilDiv(outputs, valuesPerByte)});
      }
    }

    /** Mostly around 1, some negative, some zero. */
    private double scale() {
      return chance(12) ? 0 : (0.5 + random.nextDouble()) * (chance(6) ? -1 : 1);
    }

    private TensorData packed(long[] shape) {
      byte[] bytes = new byte[(int) (shape[0] * shape[1] * (shape.length == 3 ? shape[2] : 1))];
      random.nextBytes(bytes);
      return TensorData.ofBytes(shape, bytes);
    }

    private TensorData swizzled(TensorData plain, int outputs, int inputsPerRow) {
      long[] shape =
          transposed
              ? new long[] {experts, inputsPerRow, outputs * bits / 8}
              : new long[] {experts, outputs, inputsPerRow * bits / 8};
      return TensorData.ofBytes(shape, Sm80Encoder.encode(bits, inputsPerRow, plain.bytes()));
    }

    private int width() {
      if (sm80) {
        return SM80_TILE * (1 + random.nextInt(3));
      }
      int valuesPerByte = 8 / bits;
      return valuesPerByte * (1 + random.nextInt(MAX_WIDTH / valuesPerByte));
    }

    private void setInt(String attribute, int value) {
      attributes.put(attribute, new AttributeValue.IntValue(value));
    }

    private void setFloat(String attribute, float value) {
      attributes.put(attribute, new AttributeValue.FloatValue(value));
    }

    private boolean chance(int oneIn) {
      return random.nextInt(oneIn) == 0;
    }

    private <T> T pick(List<T> choices) {
      return choices.get(random.nextInt(choices.size()));
    }

    private static double[] fill(int length, DoubleSupplier values) {
      double[] filled = new double[length];
      for (int i = 0; i < length; i++) {
        filled[i] = values.getAsDouble();
      }
      return filled;
    }
  }
}
