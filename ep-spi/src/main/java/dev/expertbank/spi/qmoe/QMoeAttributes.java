package dev.expertbank.spi.qmoe;

import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.AttributeValue.FloatValue;
import dev.expertbank.spi.AttributeValue.IntValue;
import dev.expertbank.spi.AttributeValue.StringValue;
import dev.expertbank.spi.Printable;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeSet;

/**
 * The attributes of a QMoE node, each valid by itself; how they fit the inputs is checked later.
 *
 * @param topK at least 1
 * @param blockSize as stated, 0 when absent
 * @param layout of the weights; empty when the node leaves it to the provider that runs it
 */
record QMoeAttributes(
    int bits,
    int blockSize,
    Optional<WeightLayout> layout,
    int topK,
    boolean normalizeRoutingWeights,
    Activation activation,
    int swigluFusion,
    float limit,
    float alpha,
    float beta) {
  private static final int MIN_BLOCK_SIZE = 16;

  /** Every attribute that is understood, with the value that an absent one has. */
  private static final Map<String, AttributeValue> DEFAULTS =
      Map.ofEntries(
          Map.entry("activation_type", new StringValue("relu")),
          Map.entry("k", new IntValue(1)),
          Map.entry("normalize_routing_weights", new IntValue(0)),
          Map.entry("use_sparse_mixer", new IntValue(0)),
          Map.entry("expert_weight_bits", new IntValue(4)),
          Map.entry("swiglu_fusion", new IntValue(0)),
          Map.entry("swiglu_limit", new FloatValue(Float.POSITIVE_INFINITY)),
          Map.entry("activation_alpha", new FloatValue(1)),
          Map.entry("activation_beta", new FloatValue(0)),
          Map.entry("block_size", new IntValue(0)),
          Map.entry("quant_type", new StringValue("int")),
          Map.entry("weights_prepacked", new IntValue(-1)));

  /**
   * Reads and checks the attributes, in the order that {@link QMoeSpecs#read} documents.
   *
   * @throws Refusal for the first that is not supported
   */
  static QMoeAttributes read(Map<String, AttributeValue> given) {
    checkNamesAndTypes(given);
    Values values = new Values(given);
    checkQuantType(values.text("quant_type"));
    int bits = bits(values.integer("expert_weight_bits"));
    int blockSize = blockSize(values.integer("block_size"));
    Optional<WeightLayout> layout = layout(values.integer("weights_prepacked"));
    int topK = topK(values.integer("k"));
    boolean normalize = flag("normalize_routing_weights", values);
    checkSparseMixer(values.integer("use_sparse_mixer"));
    Activation activation = activation(values.text("activation_type"));
    int swigluFusion = swigluFusion(values.integer("swiglu_fusion"), activation);
    return new QMoeAttributes(
        bits,
        blockSize,
        layout,
        topK,
        normalize,
        activation,
        swigluFusion,
        limit(values.number("swiglu_limit")),
        finite("activation_alpha", values),
        finite("activation_beta", values));
  }

  private static void checkNamesAndTypes(Map<String, AttributeValue> given) {
    TreeSet<String> names = new TreeSet<>(given.keySet());
    for (String name : names) {
      if (!DEFAULTS.containsKey(name)) {
        throw new Refusal(
            "qmoe.attr",
            "attribute "
                + Printable.quote(name)
                + " is not known to this version, and ignoring it could change the result; known"
                + " are "
                + String.join(", ", new TreeSet<>(DEFAULTS.keySet())));
      }
    }
    for (String name : names) {
      AttributeValue expected = DEFAULTS.get(name);
      AttributeValue actual = given.get(name);
      if (expected != null && actual != null && expected.getClass() != actual.getClass()) {
        throw new Refusal(
            "qmoe.attr",
            "attribute "
                + name
                + " is of type "
                + typeName(actual)
                + ", not "
                + typeName(expected));
      }
    }
  }

  private static String typeName(AttributeValue value) {
    return switch (value) {
      case IntValue _ -> "int";
      case FloatValue _ -> "float";
      case StringValue _ -> "string";
      case AttributeValue.Ints _ -> "ints";
      case AttributeValue.Floats _ -> "floats";
      case AttributeValue.Strings _ -> "strings";
      case AttributeValue.Opaque opaque -> Printable.quote(opaque.typeName());
    };
  }

  private static void checkQuantType(String quantType) {
    if (!quantType.equals("int")) {
      throw new Refusal(
          "qmoe.quant-type",
          "attribute quant_type is "
              + Printable.quote(quantType)
              + "; only 'int' is supported: re-export the model with integer weights");
    }
  }

  private static int bits(long bits) {
    if (bits != 2 && bits != 4 && bits != 8) {
      throw new Refusal(
          "qmoe.bits",
          "attribute expert_weight_bits is " + bits + "; weights of 2, 4 and 8 bits are supported");
    }
    return (int) bits;
  }

  private static int blockSize(long blockSize) {
    boolean blockWise =
        blockSize >= MIN_BLOCK_SIZE
            && blockSize <= Integer.MAX_VALUE
            && Long.bitCount(blockSize) == 1;
    if (blockSize != 0 && !blockWise) {
      throw new Refusal(
          "qmoe.block",
          "attribute block_size is "
              + blockSize
              + "; it must be a power of two from 16 to 2^30, or 0 or absent for one scale per"
              + " output row");
    }
    return (int) blockSize;
  }

  private static Optional<WeightLayout> layout(long prepacked) {
    if (prepacked < -1 || prepacked > 1) {
      throw new Refusal(
          "qmoe.layout", "attribute weights_prepacked is " + prepacked + "; it must be -1, 0 or 1");
    }
    return prepacked == -1
        ? Optional.empty()
        : Optional.of(prepacked == 0 ? WeightLayout.PLAIN : WeightLayout.SM80);
  }

  private static int topK(long k) {
    if (k < 1 || k > Integer.MAX_VALUE) {
      throw new Refusal(
          "qmoe.k", "attribute k is " + k + "; it must be from 1 to the number of experts");
    }
    return (int) k;
  }

  private static boolean flag(String name, Values values) {
    long value = values.integer(name);
    if (value != 0 && value != 1) {
      throw new Refusal("qmoe.attr", "attribute " + name + " is " + value + "; it must be 0 or 1");
    }
    return value == 1;
  }

  /**
   * ONNX Runtime's CPU kernel demands k = 2 for it and then computes a plain top-k, and its CUDA
   * kernel ignores it: no meaning of 1 would be the one that the exporter had in mind.
   */
  private static void checkSparseMixer(long sparseMixer) {
    if (sparseMixer != 0) {
      throw new Refusal(
          "qmoe.attr",
          "attribute use_sparse_mixer is "
              + sparseMixer
              + "; QMoE defines no sparse mixer routing (ONNX Runtime's kernels ignore it):"
              + " re-export the model with use_sparse_mixer=0 if plain top-k routing is meant");
    }
  }

  private static Activation activation(String text) {
    return Activation.ofSchemaName(text)
        .orElseThrow(
            () ->
                new Refusal(
                    "qmoe.attr",
                    "attribute activation_type is "
                        + Printable.quote(text)
                        + "; it must be one of "
                        + Activation.schemaNames()));
  }

  private static int swigluFusion(long fusion, Activation activation) {
    if (fusion < 0 || fusion > 2) {
      throw new Refusal(
          "qmoe.attr",
          "attribute swiglu_fusion is "
              + fusion
              + "; it must be 0 (fc3 holds the linear half), 1 (interleaved) or 2 (halves)");
    }
    if (fusion != 0 && activation != Activation.SWIGLU) {
      throw new Refusal(
          "qmoe.activation",
          "attribute swiglu_fusion is "
              + fusion
              + " but activation_type is "
              + activation.schemaName()
              + ": only swiglu has two halves to fuse; set swiglu_fusion=0 or"
              + " activation_type=swiglu");
    }
    return (int) fusion;
  }

  private static float limit(float limit) {
    // 0 is refused, too: it clamps every gate to 0, and some configurations write it for "none".
    if (!(limit > 0)) {
      throw new Refusal(
          "qmoe.attr",
          "attribute swiglu_limit is " + limit + "; it must be above 0, or absent for no limit");
    }
    return limit;
  }

  private static float finite(String name, Values values) {
    float value = values.number(name);
    if (!Float.isFinite(value)) {
      throw new Refusal("qmoe.attr", "attribute " + name + " is " + value + "; it must be finite");
    }
    return value;
  }

  /** Attribute values by name; {@link #checkNamesAndTypes} has seen them. */
  private record Values(Map<String, AttributeValue> given) {
    long integer(String name) {
      return ((IntValue) get(name)).value();
    }

    float number(String name) {
      return ((FloatValue) get(name)).value();
    }

    String text(String name) {
      return ((StringValue) get(name)).value();
    }

    private AttributeValue get(String name) {
      AttributeValue value = given.get(name);
      return value == null ? Objects.requireNonNull(DEFAULTS.get(name)) : value;
    }
  }
}
