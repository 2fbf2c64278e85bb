package dev.expertbank.model;

import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.TensorShape;
import dev.expertbank.spi.qmoe.Fc;
import dev.expertbank.spi.qmoe.QMoeInput;
import dev.expertbank.spi.qmoe.QMoeInput.Role;
import dev.expertbank.spi.qmoe.WeightLayout;
import java.util.ArrayList;
import java.util.List;

/**
 * One tensor of a synthetic model: its shape, and how its values are drawn.
 *
 * @param stream number of this tensor in the model; its values depend on it and on the seed alone
 * @param slot operator slot of the QMoE node, or -1 for the router's weights
 */
record SyntheticTensor(
    int stream, int slot, String name, ElementType type, TensorShape shape, Values values) {
  /** How values are drawn. */
  sealed interface Values {
    /** Packed unsigned weights of that many bits, symmetric around the middle of their range. */
    record Quantized(int bits) implements Values {}

    /**
     * The same weights in the layout of {@link Sm80Encoder}.
     *
     * @param reduction weights of a row
     */
    record Swizzled(int bits, int reduction) implements Values {}

    /** Packed unsigned zero points of that many bits, around the middle of their range. */
    record ZeroPoints(int bits) implements Values {}

    /** Numbers of that magnitude, between 0.75 and 1.25 times it, with a random sign. */
    record Scales(double magnitude) implements Values {}

    /** Uniform numbers from minus to plus that magnitude. */
    record Uniform(double magnitude) implements Values {}
  }

  /** Streams of one layer: the 21 slots of the operator and the router's weights. */
  private static final int STREAMS_PER_LAYER = 32;

  private static final int ROUTER_STREAM = 31;
  private static final double BIAS_MAGNITUDE = 0.1;

  /** Standard deviation of router logits for a hidden state of unit variance. */
  private static final double ROUTER_DEVIATION = 2;

  long byteLength() {
    return type.bytes(shape.elementCount());
  }

  /** The tensors of one layer, in the order of the file. */
  static List<SyntheticTensor> ofLayer(SyntheticModel model, int layer) {
    Layer tensors = new Layer(model, layer);
    if (!model.routerInputs()) {
      tensors.router();
    }
    int fc1Rows = model.swigluFusion() > 0 ? Math.multiplyExact(2, model.inter()) : model.inter();
    tensors.projection(Fc.FC1, fc1Rows, model.hidden());
    tensors.projection(Fc.FC2, model.hidden(), model.inter());
    if (model.fc3()) {
      tensors.projection(Fc.FC3, model.inter(), model.hidden());
    }
    return List.copyOf(tensors.list);
  }

  private static final class Layer {
    private final SyntheticModel model;
    private final int layer;
    private final List<SyntheticTensor> list = new ArrayList<>();

    Layer(SyntheticModel model, int layer) {
      this.model = model;
      this.layer = layer;
    }

    /** The router computes in float where ONNX Runtime's CPU kernels have no bfloat16. */
    void router() {
      ElementType type =
          model.ioType() == ElementType.BFLOAT16 ? ElementType.FLOAT : model.ioType();
      list.add(
          new SyntheticTensor(
              layer * STREAMS_PER_LAYER + ROUTER_STREAM,
              -1,
              "layers." + layer + ".router.weight",
              type,
              TensorShape.of(model.hidden(), model.experts()),
              new Values.Uniform(ROUTER_DEVIATION * Math.sqrt(3.0 / model.hidden()))));
    }

    /**
     * One projection of all experts.
     *
     * @param rows outputs of the projection
     * @param reduction inputs of the projection
     */
    void projection(Fc fc, int rows, int reduction) {
      int perByte = 8 / model.bits();
      // A block that spans every row of the layer is one scale per row, for zero points too.
      boolean blockwise =
          model.blockSize() > 0 && model.blockSize() < Math.max(model.hidden(), model.inter());
      int blocks = blockwise ? Math.ceilDiv(reduction, model.blockSize()) : 1;
      long experts = model.experts();
      boolean plain = model.layout() == WeightLayout.PLAIN;
      add(
          QMoeInput.of(fc, Role.WEIGHTS),
          ElementType.UINT8,
          plain
              ? TensorShape.of(experts, rows, reduction / perByte)
              : TensorShape.of(experts, reduction, rows / perByte),
          plain
              ? new Values.Quantized(model.bits())
              : new Values.Swizzled(model.bits(), reduction));
      add(
          QMoeInput.of(fc, Role.SCALES),
          model.scaleType(),
          blockwise ? TensorShape.of(experts, rows, blocks) : TensorShape.of(experts, rows),
          new Values.Scales(1 / (deviation(model.bits()) * Math.sqrt(reduction))));
      if (model.zeroPoints()) {
        add(
            QMoeInput.of(fc, Role.ZERO_POINTS),
            ElementType.UINT8,
            blockwise
                ? TensorShape.of(experts, rows, Math.ceilDiv(blocks, perByte))
                : TensorShape.of(experts, Math.ceilDiv(rows, perByte)),
            new Values.ZeroPoints(model.bits()));
      }
      if (model.biases()) {
        add(
            QMoeInput.of(fc, Role.BIAS),
            model.ioType(),
            TensorShape.of(experts, rows),
            new Values.Uniform(BIAS_MAGNITUDE));
      }
    }

    private void add(QMoeInput input, ElementType type, TensorShape shape, Values values) {
      list.add(
          new SyntheticTensor(
              layer * STREAMS_PER_LAYER + input.slot(),
              input.slot(),
              "layers." + layer + ".experts." + input.schemaName(),
              type,
              shape,
              values));
    }
  }

  /** Standard deviation of a {@link Values.Quantized} weight around the middle of its range. */
  private static double deviation(int bits) {
    long largest = (1L << (bits - 1)) - 1;
    long squares = 0;
    for (long q = 1; q <= largest; q++) {
      squares += 2 * q * q;
    }
    return Math.sqrt((double) squares / (1L << bits));
  }
}
