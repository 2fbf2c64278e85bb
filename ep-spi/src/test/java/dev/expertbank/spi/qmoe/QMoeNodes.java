package dev.expertbank.spi.qmoe;

import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.GraphValue;
import dev.expertbank.spi.TensorShape;
import dev.expertbank.spi.qmoe.QMoeInput.Role;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Builds QMoE nodes for tests: a valid node of a geometry, all tensors external in one file, then
 * whatever a test wants different about it.
 */
final class QMoeNodes {
  private final Map<String, AttributeValue> attributes = new HashMap<>();
  private final EnumMap<QMoeInput, GraphValue> inputs = new EnumMap<>(QMoeInput.class);
  private final ElementType ioType;
  private final ElementType scaleType;
  private final long experts;
  private final long hidden;
  private final long inter;
  private final int pack;
  private final long blockSize;
  private final boolean fused;
  private long nextOffset = 4096;
  private String domain = "com.microsoft";
  private List<GraphValue> outputs;

  private QMoeNodes(Geometry g) {
    experts = g.experts;
    hidden = g.hidden;
    inter = g.inter;
    pack = 8 / g.bits;
    blockSize = g.blockSize;
    fused = g.fused;
    ioType = g.ioType;
    scaleType = g.scaleType;
    integer("expert_weight_bits", g.bits);
    integer("k", Math.min(2, g.experts));
    text("activation_type", fused ? "swiglu" : "silu");
    if (fused) {
      integer("swiglu_fusion", 1);
    }
    if (blockSize != 0) {
      integer("block_size", blockSize);
    }
    value(QMoeInput.INPUT, ioType, TensorShape.of(TensorShape.DYNAMIC, hidden));
    value(QMoeInput.ROUTER_PROBS, ioType, TensorShape.of(TensorShape.DYNAMIC, experts));
    outputs =
        List.of(
            new GraphValue(
                "output",
                ioType,
                Optional.of(TensorShape.of(TensorShape.DYNAMIC, hidden)),
                Optional.empty()));
    for (Fc fc : List.of(Fc.FC1, Fc.FC2)) {
      with(QMoeInput.of(fc, Role.WEIGHTS)).with(QMoeInput.of(fc, Role.SCALES));
    }
  }

  /** A small block-wise int4 node: E 4, H 64, I 96, blocks of 32, float32, silu, k 2. */
  static QMoeNodes blockWise() {
    return new Geometry().build();
  }

  /** The same with one scale per output row. */
  static QMoeNodes perChannel() {
    return new Geometry().blockSize(0).build();
  }

  /** What determines every shape of a node. */
  static final class Geometry {
    private int experts = 4;
    private long hidden = 64;
    private long inter = 96;
    private int bits = 4;
    private long blockSize = 32;
    private boolean fused;
    private ElementType ioType = ElementType.FLOAT;
    private ElementType scaleType = ElementType.FLOAT;

    Geometry experts(int value) {
      experts = value;
      return this;
    }

    Geometry hidden(long value) {
      hidden = value;
      return this;
    }

    Geometry inter(long value) {
      inter = value;
      return this;
    }

    Geometry bits(int value) {
      bits = value;
      return this;
    }

    Geometry blockSize(long value) {
      blockSize = value;
      return this;
    }

    /** SwiGLU with both halves in fc1. */
    Geometry fusedSwiglu() {
      fused = true;
      return this;
    }

    Geometry types(ElementType io, ElementType scale) {
      ioType = io;
      scaleType = scale;
      return this;
    }

    QMoeNodes build() {
      return new QMoeNodes(this);
    }
  }

  /** Adds tensors, with the shapes that the geometry gives them. */
  QMoeNodes with(QMoeInput... added) {
    for (QMoeInput input : added) {
      if (input == QMoeInput.ROUTER_WEIGHTS) {
        value(input, ioType, TensorShape.of(TensorShape.DYNAMIC, experts));
      } else {
        external(input, type(input), shape(input));
      }
    }
    return this;
  }

  QMoeNodes without(QMoeInput input) {
    inputs.remove(input);
    return this;
  }

  QMoeNodes integer(String name, long value) {
    return attribute(name, new AttributeValue.IntValue(value));
  }

  QMoeNodes number(String name, float value) {
    return attribute(name, new AttributeValue.FloatValue(value));
  }

  QMoeNodes text(String name, String value) {
    return attribute(name, new AttributeValue.StringValue(value));
  }

  QMoeNodes attribute(String name, AttributeValue value) {
    attributes.put(name, value);
    return this;
  }

  QMoeNodes withoutAttribute(String name) {
    attributes.remove(name);
    return this;
  }

  /** An input that is not a constant. */
  QMoeNodes value(QMoeInput input, ElementType type, TensorShape shape) {
    return put(input, type, Optional.of(shape), Optional.empty());
  }

  QMoeNodes unknownShape(QMoeInput input) {
    return put(input, ioType, Optional.empty(), Optional.empty());
  }

  /** A constant in the external file, directly after the one added before. */
  QMoeNodes external(QMoeInput input, ElementType type, TensorShape shape) {
    long length = shape.isStatic() ? type.bytes(shape.elementCount()) : 0;
    QMoeNodes result =
        constant(input, type, shape, new ConstantData.External("weights.bin", nextOffset, length));
    nextOffset += length;
    return result;
  }

  QMoeNodes shape(QMoeInput input, long... dims) {
    return external(input, type(input), TensorShape.of(dims));
  }

  /** Stores the weights of every layer as {@code [experts, K, N/pack]}. */
  QMoeNodes transposed() {
    for (Fc fc : Fc.values()) {
      QMoeInput input = QMoeInput.of(fc, Role.WEIGHTS);
      if (inputs.containsKey(input)) {
        TensorShape plain = shape(input);
        shape(input, experts, plain.dim(2) * pack, plain.dim(1) / pack);
      }
    }
    return this;
  }

  QMoeNodes type(QMoeInput input, ElementType type) {
    return external(input, type, shape(input));
  }

  QMoeNodes inline(QMoeInput input) {
    long length = type(input).bytes(shape(input).elementCount());
    return constant(
        input, type(input), shape(input), new ConstantData.Inline(length, target -> {}));
  }

  QMoeNodes constant(QMoeInput input, ElementType type, TensorShape shape, ConstantData data) {
    return put(input, type, Optional.of(shape), Optional.of(data));
  }

  QMoeNodes notConstant(QMoeInput input) {
    return value(input, type(input), shape(input));
  }

  QMoeNodes output(ElementType type, Optional<TensorShape> shape) {
    outputs = List.of(new GraphValue("output", type, shape, Optional.empty()));
    return this;
  }

  QMoeNodes domain(String other) {
    domain = other;
    return this;
  }

  GraphNode node() {
    GraphValue[] slots = new GraphValue[QMoeInput.values().length];
    inputs.forEach((input, value) -> slots[input.slot()] = value);
    return new GraphNode("moe", domain, "QMoE", 1, attributes, Arrays.asList(slots), outputs);
  }

  private QMoeNodes put(
      QMoeInput input,
      ElementType type,
      Optional<TensorShape> shape,
      Optional<ConstantData> constant) {
    inputs.put(input, new GraphValue("moe." + input.schemaName(), type, shape, constant));
    return this;
  }

  private ElementType type(QMoeInput input) {
    return switch (input.role()) {
      case WEIGHTS, ZERO_POINTS -> ElementType.UINT8;
      case SCALES -> scaleType;
      case INPUT, ROUTER_PROBS, ROUTER_WEIGHTS, BIAS -> ioType;
      case FLOAT_FORMAT -> ElementType.FLOAT;
    };
  }

  private TensorShape shape(QMoeInput input) {
    Fc fc = input.fc().orElseThrow();
    long rows = fc == Fc.FC2 ? hidden : fc == Fc.FC1 && fused ? 2 * inter : inter;
    long reduction = fc == Fc.FC2 ? inter : hidden;
    long blocks = blockSize == 0 ? 1 : Math.ceilDiv(reduction, blockSize);
    boolean blockWise = blockSize != 0;
    return switch (input.role()) {
      case WEIGHTS -> TensorShape.of(experts, rows, reduction / pack);
      case SCALES ->
          blockWise ? TensorShape.of(experts, rows, blocks) : TensorShape.of(experts, rows);
      case ZERO_POINTS ->
          blockWise
              ? TensorShape.of(experts, rows, Math.ceilDiv(blocks, (long) pack))
              : TensorShape.of(experts, Math.ceilDiv(rows, (long) pack));
      case BIAS -> TensorShape.of(experts, rows);
      case FLOAT_FORMAT -> TensorShape.of(experts);
      case INPUT, ROUTER_PROBS, ROUTER_WEIGHTS -> TensorShape.of(TensorShape.DYNAMIC, hidden);
    };
  }
}
