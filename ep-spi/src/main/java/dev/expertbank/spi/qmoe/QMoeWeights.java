package dev.expertbank.spi.qmoe;

import dev.expertbank.spi.TensorShape;
import dev.expertbank.spi.qmoe.QMoeInput.Role;

/**
 * Checks the weights against the sizes that were read from them and against their layout.
 *
 * <p>With pack = 8 / bits, weights are {@code [E, N, K/pack]} or, all of them, transposed {@code
 * [E, K, N/pack]}. ONNX Runtime tells the transposed form by fc2's middle dimension being I, or,
 * where H = I, by fc1's being H although a fused SwiGLU has 2·I rows. Plain weights have the first
 * form only. The bytes of {@link WeightLayout#SM80} are the same in either.
 */
record QMoeWeights(QMoeOperands operands, QMoeGeometry geometry, QMoeAttributes attributes) {
  /** What to do about a layout that the weights cannot have. */
  private static final String REPACK =
      "; set weights_prepacked=0 if the weights are plain rows, else re-export the model with"
          + " weights_prepacked=0";

  /**
   * Checks that the width of the weights has a layout.
   *
   * @throws Refusal {@code qmoe.layout}
   */
  static void checkBits(QMoeAttributes attributes, WeightLayout layout) {
    if (layout == WeightLayout.SM80 && attributes.bits() != 4 && attributes.bits() != 8) {
      throw new Refusal(
          "qmoe.layout",
          cause(attributes)
              + ", which holds weights of 4 and 8 bits, but expert_weight_bits is "
              + attributes.bits()
              + REPACK);
    }
    if (layout == WeightLayout.SM80
        && attributes.blockSize() != 0
        && attributes.blockSize() < WeightLayout.SM80_MIN_BLOCK) {
      throw new Refusal(
          "qmoe.layout",
          cause(attributes)
              + ", whose kernels know blocks of "
              + WeightLayout.SM80_MIN_BLOCK
              + " weights and more, but block_size is "
              + attributes.blockSize()
              + REPACK);
    }
  }

  /**
   * Checks sizes and shapes.
   *
   * @throws Refusal {@code qmoe.layout}, {@code qmoe.legacy-layout}, {@code qmoe.shape}
   */
  void check(WeightLayout layout) {
    boolean transposed = isTransposed();
    switch (layout) {
      case SM80 -> checkTiles();
      case PLAIN -> {
        if (transposed) {
          throw transposedPlain();
        }
      }
    }
    for (Fc fc : Fc.values()) {
      checkShape(fc, transposed);
    }
  }

  private static String cause(QMoeAttributes attributes) {
    return attributes.layout().isPresent()
        ? "attribute weights_prepacked is 1: the weights are in the byte layout of ONNX Runtime's"
            + " CUDA provider"
        : "attribute weights_prepacked is absent or -1, which in a model for ONNX Runtime's CUDA"
            + " provider means that provider's own byte layout";
  }

  /** The numbers of rows are then multiples of the rows that alternate, being H, I and 2·I. */
  private void checkTiles() {
    int tile = WeightLayout.SM80_TILE;
    if (geometry.hidden() % tile != 0 || geometry.inter() % tile != 0) {
      throw new Refusal(
          "qmoe.layout",
          cause(attributes)
              + ", in which hidden and intermediate size are multiples of "
              + tile
              + ", but they are "
              + geometry.hidden()
              + " and "
              + geometry.inter()
              + REPACK);
    }
  }

  private boolean isTransposed() {
    return geometry.hidden() == geometry.inter()
        ? geometry.fusion() != 0
            && operands.shape(QMoeInput.FC1_WEIGHTS).dim(1) == geometry.hidden()
        : operands.shape(QMoeInput.FC2_WEIGHTS).dim(1) == geometry.inter();
  }

  private Refusal transposedPlain() {
    String shapes =
        labelAndShape(QMoeInput.FC1_WEIGHTS)
            + " and "
            + labelAndShape(QMoeInput.FC2_WEIGHTS)
            + " have the transposed shape [experts, K, N/pack] of weights prepared for ONNX"
            + " Runtime's CUDA provider";
    String fix =
        attributes.layout().isPresent()
            ? "; re-export the model with weights_prepacked=0, which stores [experts, N, K/pack]"
            : ", and weights_prepacked is absent or -1; choose option routing.semantics=ort-cuda"
                + " (on a CUDA device) to run the model as it is, or re-export it with"
                + " weights_prepacked=0, which stores [experts, N, K/pack]";
    return new Refusal("qmoe.legacy-layout", shapes + fix);
  }

  private String labelAndShape(QMoeInput input) {
    return operands.label(input) + " " + QMoeOperands.text(operands.shape(input));
  }

  private void checkShape(Fc fc, boolean transposed) {
    QMoeInput input = QMoeInput.of(fc, Role.WEIGHTS);
    if (!operands.has(input)) {
      return;
    }
    int pack = 8 / attributes.bits();
    int rows = geometry.rows(fc);
    int reduction = geometry.reduction(fc);
    TensorShape expected =
        transposed
            ? TensorShape.of(geometry.experts(), reduction, rows / pack)
            : TensorShape.of(geometry.experts(), rows, reduction / pack);
    TensorShape actual = operands.shape(input);
    if (!actual.equals(expected)) {
      throw new Refusal(
          "qmoe.shape",
          operands.label(input)
              + " has shape "
              + QMoeOperands.text(actual)
              + "; it must be "
              + expected
              + " for hidden size "
              + geometry.hidden()
              + " and intermediate size "
              + geometry.inter()
              + (transposed ? ", as the shape of the others is transposed" : ""));
    }
  }
}
