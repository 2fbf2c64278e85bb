package dev.expertbank.model;

import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.qmoe.WeightLayout;
import java.util.List;
import java.util.Set;

/**
 * What a synthetic model of chained {@code com.microsoft::QMoE} layers looks like.
 *
 * @param hidden width of the hidden state
 * @param inter width inside an expert
 * @param topK experts per token
 * @param bits of a weight: 2, 4 or 8
 * @param blockSize weights that share a scale along the reduction; 0 for one scale per output row
 * @param layout of the weights' bytes; models that differ in nothing else compute the same
 * @param activation as the operator spells it, for example {@code swiglu}
 * @param swigluFusion 0: none, 1: gate and linear rows interleaved in fc1, 2: concatenated
 * @param fc3 a separate linear projection
 * @param ioType of hidden states, router logits and biases: float, float16 or bfloat16
 * @param scaleType float, float16 or bfloat16
 * @param normalizeRoutingWeights the attribute of that name
 * @param alpha gain inside the sigmoid of swiglu
 * @param beta added to the linear half of swiglu
 * @param limit clamp of swiglu; infinite for none
 * @param layers QMoE nodes
 * @param routerInputs router logits are inputs of the model; otherwise each layer computes them
 *     from its hidden state
 * @param seed the same seed gives the same bytes, on every platform
 */
public record SyntheticModel(
    int hidden,
    int inter,
    int experts,
    int topK,
    int bits,
    int blockSize,
    WeightLayout layout,
    String activation,
    int swigluFusion,
    boolean fc3,
    boolean zeroPoints,
    boolean biases,
    ElementType ioType,
    ElementType scaleType,
    boolean normalizeRoutingWeights,
    float alpha,
    float beta,
    float limit,
    int layers,
    boolean routerInputs,
    long seed) {
  private static final int MAX_LAYERS = 10_000;
  private static final List<ElementType> FLOATS =
      List.of(ElementType.FLOAT, ElementType.FLOAT16, ElementType.BFLOAT16);
  private static final List<String> ACTIVATIONS =
      List.of("relu", "gelu", "silu", "swiglu", "identity");

  /**
   * Checks the combination.
   *
   * @throws IllegalArgumentException naming the value that does not fit and what does
   */
  public SyntheticModel {
    require(Set.of(2, 4, 8).contains(bits), "bits must be 2, 4 or 8, not " + bits);
    int perByte = 8 / bits;
    String multiple = " must be a positive multiple of " + perByte + ", not ";
    require(hidden > 0 && hidden % perByte == 0, "hidden" + multiple + hidden);
    require(inter > 0 && inter % perByte == 0, "inter" + multiple + inter);
    require(experts > 0, "experts must be positive, not " + experts);
    require(
        topK > 0 && topK <= experts,
        "topK must be from 1 to the " + experts + " experts, not " + topK);
    require(
        blockSize == 0 || (blockSize >= 16 && Integer.bitCount(blockSize) == 1),
        "block size must be 0 or a power of two of at least 16, not " + blockSize);
    requireLayout(layout, bits, hidden, inter);
    require(
        ACTIVATIONS.contains(activation),
        "activation must be one of " + ACTIVATIONS + ", not '" + activation + "'");
    require(
        swigluFusion >= 0 && swigluFusion <= 2,
        "swiglu fusion must be 0, 1 or 2, not " + swigluFusion);
    require(
        swigluFusion == 0 || (activation.equals("swiglu") && !fc3),
        "swiglu fusion " + swigluFusion + " needs activation swiglu and no fc3");
    require(
        !activation.equals("swiglu") || swigluFusion > 0 || fc3,
        "swiglu needs fc3, or swiglu fusion 1 or 2");
    require(FLOATS.contains(ioType), "io type must be one of " + FLOATS + ", not " + ioType);
    require(
        FLOATS.contains(scaleType), "scale type must be one of " + FLOATS + ", not " + scaleType);
    require(limit >= 0, "limit must not be negative, and is " + limit);
    require(
        Float.isFinite(alpha) && Float.isFinite(beta),
        "alpha and beta must be finite, not " + alpha + " and " + beta);
    require(
        layers > 0 && layers <= MAX_LAYERS,
        "layers must be from 1 to " + MAX_LAYERS + ", not " + layers);
  }

  private static void requireLayout(WeightLayout layout, int bits, int hidden, int inter) {
    int tile = WeightLayout.SM80_TILE;
    boolean fits = bits > 2 && hidden % tile == 0 && inter % tile == 0;
    require(
        layout == WeightLayout.PLAIN || fits,
        "layout sm80 needs 4 or 8 bits, and hidden and inter that are multiples of %d, not %d bits, %d and %d"
            .formatted(tile, bits, hidden, inter));
  }

  private static void require(boolean condition, String message) {
    if (!condition) {
      throw new IllegalArgumentException(message);
    }
  }

  /** A builder with the layer of gpt-oss-20b: int4, block 32, interleaved swiglu, biases. */
  public static Builder builder() {
    return new Builder();
  }

  /** Collects the properties; the defaults are those of one layer of gpt-oss-20b. */
  public static final class Builder {
    private int hidden = 2880;
    private int inter = 2880;
    private int experts = 32;
    private int topK = 4;
    private int bits = 4;
    private int blockSize = 32;
    private WeightLayout layout = WeightLayout.PLAIN;
    private String activation = "swiglu";
    private int swigluFusion = 1;
    private boolean fc3;
    private boolean zeroPoints;
    private boolean biases = true;
    private ElementType ioType = ElementType.FLOAT;
    private ElementType scaleType = ElementType.FLOAT;
    private boolean normalizeRoutingWeights = true;
    private float alpha = 1.702f;
    private float beta = 1;
    private float limit = 7;
    private int layers = 1;
    private boolean routerInputs;
    private long seed;

    private Builder() {}

    public Builder geometry(int hidden, int inter, int experts, int topK) {
      this.hidden = hidden;
      this.inter = inter;
      this.experts = experts;
      this.topK = topK;
      return this;
    }

    /** Bits of a weight, and weights per scale (0: one scale per output row). */
    public Builder quantization(int bits, int blockSize) {
      this.bits = bits;
      this.blockSize = blockSize;
      return this;
    }

    public Builder layout(WeightLayout layout) {
      this.layout = layout;
      return this;
    }

    public Builder activation(String activation, int swigluFusion, boolean fc3) {
      this.activation = activation;
      this.swigluFusion = swigluFusion;
      this.fc3 = fc3;
      return this;
    }

    /** Constants of swiglu; the limit is infinite for none. */
    public Builder swiglu(float alpha, float beta, float limit) {
      this.alpha = alpha;
      this.beta = beta;
      this.limit = limit;
      return this;
    }

    public Builder zeroPoints(boolean zeroPoints) {
      this.zeroPoints = zeroPoints;
      return this;
    }

    public Builder biases(boolean biases) {
      this.biases = biases;
      return this;
    }

    public Builder types(ElementType ioType, ElementType scaleType) {
      this.ioType = ioType;
      this.scaleType = scaleType;
      return this;
    }

    public Builder normalizeRoutingWeights(boolean normalize) {
      this.normalizeRoutingWeights = normalize;
      return this;
    }

    public Builder layers(int layers) {
      this.layers = layers;
      return this;
    }

    public Builder routerInputs(boolean routerInputs) {
      this.routerInputs = routerInputs;
      return this;
    }

    public Builder seed(long seed) {
      this.seed = seed;
      return this;
    }

    /**
     * The model.
     *
     * @throws IllegalArgumentException as {@link SyntheticModel}
     */
    public SyntheticModel build() {
      return new SyntheticModel(
          hidden,
          inter,
          experts,
          topK,
          bits,
          blockSize,
          layout,
          activation,
          swigluFusion,
          fc3,
          zeroPoints,
          biases,
          ioType,
          scaleType,
          normalizeRoutingWeights,
          alpha,
          beta,
          limit,
          layers,
          routerInputs,
          seed);
    }
  }
}
