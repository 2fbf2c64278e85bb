package dev.expertbank.spi.qmoe;

import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.GraphValue;
import dev.expertbank.spi.Printable;
import dev.expertbank.spi.TensorShape;
import dev.expertbank.spi.qmoe.QMoeInput.Role;
import java.util.Optional;

/**
 * The sizes of a QMoE node, from its weights' shapes; that all weights have them is checked by
 * {@link QMoeWeights}.
 *
 * @param experts E
 * @param hidden H
 * @param inter I
 * @param fusion {@code swiglu_fusion} as it is computed
 * @param fusionAssumed whether {@code fusion} is not what the node states
 */
record QMoeGeometry(
    int experts, int hidden, int inter, boolean fc3, int fusion, boolean fusionAssumed) {

  int rows(Fc fc) {
    return switch (fc) {
      case FC1 -> fusion == 0 ? inter : 2 * inter;
      case FC2 -> hidden;
      case FC3 -> inter;
    };
  }

  int reduction(Fc fc) {
    return fc == Fc.FC2 ? inter : hidden;
  }

  /**
   * Reads the sizes.
   *
   * @throws Refusal {@code qmoe.fc3}, {@code qmoe.shape}, {@code qmoe.experts}, {@code qmoe.k}
   */
  static QMoeGeometry read(
      QMoeOperands operands, QMoeAttributes attributes, RoutingSemantics routing) {
    boolean fc3 = operands.has(QMoeInput.FC3_WEIGHTS);
    int fusion = fusion(attributes, fc3, routing);
    checkWeightRanks(operands);
    int experts = experts(operands);
    if (attributes.topK() > experts) {
      throw new Refusal(
          "qmoe.k",
          "attribute k is " + attributes.topK() + " but there are " + experts + " experts");
    }
    int pack = 8 / attributes.bits();
    TensorShape fc2 = operands.shape(QMoeInput.FC2_WEIGHTS);
    long hidden = hidden(operands, pack);
    long inter = inter(operands, fc2, hidden, pack);
    checkSize("hidden size", hidden, 1, pack);
    checkSize("intermediate size", inter, fusion == 0 ? 1 : 2, pack);
    return new QMoeGeometry(
        experts, (int) hidden, (int) inter, fc3, fusion, fusion != attributes.swigluFusion());
  }

  private static int fusion(QMoeAttributes attributes, boolean fc3, RoutingSemantics routing) {
    int stated = attributes.swigluFusion();
    if (stated != 0 && fc3) {
      throw new Refusal(
          "qmoe.fc3",
          "attribute swiglu_fusion is "
              + stated
              + ", so fc1 holds both halves of the SwiGLU, yet fc3_experts_weights is present;"
              + " set swiglu_fusion=0 or leave fc3 out");
    }
    if (attributes.activation() != Activation.SWIGLU || stated != 0 || fc3) {
      return stated;
    }
    return switch (routing) {
      case ORT_CUDA -> 1;
      case ORT_CPU ->
          throw new Refusal(
              "qmoe.fc3",
              "activation_type is swiglu with swiglu_fusion=0, which needs fc3_experts_weights for"
                  + " the linear half; set swiglu_fusion=1, or choose option"
                  + " routing.semantics=ort-cuda if the model was exported for CUDA before the"
                  + " attribute existed");
    };
  }

  private static void checkWeightRanks(QMoeOperands operands) {
    for (QMoeInput input : operands.expertTensors()) {
      TensorShape shape = operands.shape(input);
      if (input.role() == Role.WEIGHTS && shape.rank() != 3) {
        throw new Refusal(
            "qmoe.shape",
            operands.label(input)
                + " has shape "
                + QMoeOperands.text(shape)
                + "; it must be [experts, N, K/pack]");
      }
    }
  }

  private static int experts(QMoeOperands operands) {
    long experts = operands.shape(QMoeInput.FC1_WEIGHTS).dim(0);
    if (experts < 1 || experts > Integer.MAX_VALUE) {
      throw new Refusal(
          "qmoe.experts", operands.label(QMoeInput.FC1_WEIGHTS) + " holds " + experts + " experts");
    }
    for (QMoeInput input : operands.expertTensors()) {
      TensorShape shape = operands.shape(input);
      if (shape.rank() > 0 && shape.dim(0) != experts) {
        throw differentExperts(operands, input, shape.dim(0), experts);
      }
    }
    Optional<TensorShape> router = operands.value(QMoeInput.ROUTER_PROBS).shape();
    long routed = router.filter(s -> s.rank() > 0).map(TensorShape::lastDim).orElse(experts);
    if (routed != experts && routed != TensorShape.DYNAMIC) {
      throw differentExperts(operands, QMoeInput.ROUTER_PROBS, routed, experts);
    }
    return (int) experts;
  }

  private static Refusal differentExperts(
      QMoeOperands operands, QMoeInput input, long actual, long experts) {
    return new Refusal(
        "qmoe.experts",
        operands.label(input)
            + " is for "
            + actual
            + " experts but "
            + operands.label(QMoeInput.FC1_WEIGHTS)
            + " holds "
            + experts);
  }

  /** From the input or output where they state it, else from fc2. */
  private static long hidden(QMoeOperands operands, int pack) {
    GraphNode node = operands.node();
    Optional<Long> stated =
        statedHidden(operands.value(QMoeInput.INPUT))
            .or(() -> node.outputs().stream().findFirst().flatMap(QMoeGeometry::statedHidden));
    if (stated.isPresent()) {
      return stated.get();
    }
    // fc2's scales have one row per hidden element in either form of its weights.
    TensorShape fc2 = operands.shape(QMoeInput.FC2_WEIGHTS);
    TensorShape scales = operands.shape(QMoeInput.FC2_SCALES);
    boolean transposed =
        scales.rank() > 1
            && scales.dim(1) != fc2.dim(1)
            && scales.dim(1) % pack == 0
            && scales.dim(1) / pack == fc2.dim(2);
    return transposed ? scales.dim(1) : fc2.dim(1);
  }

  private static Optional<Long> statedHidden(GraphValue value) {
    Optional<TensorShape> shape = value.shape();
    if (shape.isPresent() && shape.get().rank() != 2 && shape.get().rank() != 3) {
      throw new Refusal(
          "qmoe.shape",
          Printable.quote(value.name())
              + " has shape "
              + QMoeOperands.text(shape)
              + "; it must be [tokens, hidden] or [batch, sequence, hidden]");
    }
    return shape.map(TensorShape::lastDim).filter(dim -> dim != TensorShape.DYNAMIC);
  }

  private static long inter(QMoeOperands operands, TensorShape fc2, long hidden, int pack) {
    long weights;
    try {
      weights = Math.multiplyExact(Math.multiplyExact(fc2.dim(1), fc2.dim(2)), (long) pack);
    } catch (ArithmeticException _) {
      throw new Refusal(
          "qmoe.shape",
          operands.label(QMoeInput.FC2_WEIGHTS) + " " + QMoeOperands.text(fc2) + " is too large");
    }
    if (hidden == 0 || weights % hidden != 0) {
      throw new Refusal(
          "qmoe.shape",
          operands.label(QMoeInput.FC2_WEIGHTS)
              + " "
              + QMoeOperands.text(fc2)
              + " has "
              + weights
              + " weights per expert, from which no intermediate size follows at hidden size "
              + hidden);
    }
    return weights / hidden;
  }

  private static void checkSize(String what, long size, int rowsPerUnit, int pack) {
    if (size < 1 || size > Integer.MAX_VALUE / rowsPerUnit) {
      throw new Refusal("qmoe.shape", what + " is " + size);
    }
    if (size % pack != 0) {
      throw new Refusal(
          "qmoe.shape",
          what + " is " + size + ", not a multiple of the " + pack + " weights in a byte");
    }
  }

  /** Hidden and intermediate size being equal, plain and transposed weights have equal shapes. */
  boolean shapesAreAmbiguous() {
    return hidden == inter && fusion == 0;
  }
}
