package dev.expertbank.spi.qmoe;

import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.Printable;
import dev.expertbank.spi.TensorShape;
import dev.expertbank.spi.qmoe.QMoeInput.Role;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Reads QMoE nodes. */
public final class QMoeSpecs {
  private QMoeSpecs() {}

  /**
   * Says what a node computes, or why it is not supported. Pure, and never throws whatever the node
   * holds; works alike for nodes with and without the schema's default attributes.
   *
   * <p>The first of these checks that fails gives the code:
   *
   * <ol>
   *   <li>{@code qmoe.operator}: the node is a {@code com.microsoft::QMoE}
   *   <li>attributes: known names, then types ({@code qmoe.attr}), then values: quant_type ({@code
   *       qmoe.quant-type}), expert_weight_bits ({@code qmoe.bits}), block_size ({@code
   *       qmoe.block}), weights_prepacked ({@code qmoe.layout}), k ({@code qmoe.k}),
   *       normalize_routing_weights, use_sparse_mixer, activation_type, swiglu_fusion ({@code
   *       qmoe.attr}, {@code qmoe.activation}), swiglu_limit, activation_alpha, activation_beta;
   *       then expert_weight_bits against the layout ({@code qmoe.layout})
   *   <li>inputs present ({@code qmoe.input}, {@code qmoe.quant-type}, {@code qmoe.scales}, {@code
   *       qmoe.fc3})
   *   <li>expert tensors are constants ({@code qmoe.not-constant}) of static shape ({@code
   *       qmoe.shape}) whose data is as long as the shape says ({@code external.range}, {@code
   *       external.length-mismatch})
   *   <li>element types ({@code qmoe.type}, {@code qmoe.zero-points}, {@code qmoe.bias}, {@code
   *       qmoe.scales})
   *   <li>how SwiGLU and fc3 fit together ({@code qmoe.fc3})
   *   <li>experts ({@code qmoe.experts}), k against them ({@code qmoe.k}), hidden and intermediate
   *       size ({@code qmoe.shape}), the same against the layout ({@code qmoe.layout}), transposed
   *       plain weights ({@code qmoe.legacy-layout}), weights ({@code qmoe.shape})
   *   <li>scales ({@code qmoe.scales}), zero points ({@code qmoe.zero-points}), biases ({@code
   *       qmoe.bias}), router and input ({@code qmoe.shape})
   * </ol>
   *
   * <p>Dimensions that depend on the number of tokens may be dynamic, as may the hidden size in the
   * input and the experts in the router; whoever computes checks those again at run time.
   *
   * @param routing decides what absent {@code weights_prepacked} means ({@link WeightLayout#PLAIN}
   *     for the CPU kernel, {@link WeightLayout#SM80} for the CUDA kernel), and what a SwiGLU
   *     without fc3 and with {@code swiglu_fusion=0} means: ONNX Runtime's CPU kernel refuses it,
   *     its CUDA kernel takes the halves as interleaved
   */
  public static QMoeReading read(GraphNode node, RoutingSemantics routing) {
    try {
      return readOrRefuse(node, routing);
    } catch (Refusal refusal) {
      return refusal.toReading();
    }
  }

  private static QMoeReading readOrRefuse(GraphNode node, RoutingSemantics routing) {
    if (!node.qualifiedType().equals("com.microsoft::QMoE")) {
      throw new Refusal(
          "qmoe.operator",
          "the node is a " + Printable.quote(node.qualifiedType()) + ", not a com.microsoft::QMoE");
    }
    QMoeAttributes attributes = QMoeAttributes.read(node.attributes());
    WeightLayout layout = layout(attributes, routing);
    QMoeWeights.checkBits(attributes, layout);
    QMoeOperands operands = new QMoeOperands(node);
    operands.checkPresence();
    operands.checkConstants();
    QMoeOperands.Types types = operands.checkTypes();
    QMoeGeometry geometry = QMoeGeometry.read(operands, attributes, routing);
    new QMoeWeights(operands, geometry, attributes).check(layout);
    QMoeShapes shapes = QMoeShapes.of(operands, geometry, attributes);
    shapes.check();
    QMoeSpec spec =
        new QMoeSpec(
            geometry.hidden(),
            geometry.inter(),
            geometry.experts(),
            attributes.topK(),
            attributes.bits(),
            shapes.blockSize(),
            layout,
            attributes.activation(),
            geometry.fusion(),
            geometry.fc3(),
            types.io(),
            types.scale(),
            attributes.normalizeRoutingWeights(),
            operands.has(QMoeInput.ROUTER_WEIGHTS),
            attributes.alpha(),
            attributes.beta(),
            attributes.limit(),
            routing,
            tensors(operands, attributes, shapes));
    return new QMoeReading.Supported(spec, notes(spec, attributes, geometry, shapes));
  }

  /** What an unstated layout means depends on the provider that the model was exported for. */
  private static WeightLayout layout(QMoeAttributes attributes, RoutingSemantics routing) {
    return attributes
        .layout()
        .orElse(
            switch (routing) {
              case ORT_CPU -> WeightLayout.PLAIN;
              case ORT_CUDA -> WeightLayout.SM80;
            });
  }

  private static List<QMoeTensor> tensors(
      QMoeOperands operands, QMoeAttributes attributes, QMoeShapes shapes) {
    List<QMoeTensor> tensors = new ArrayList<>();
    for (QMoeInput input : operands.expertTensors()) {
      Optional<ExpertQuantization> quantization =
          input.role() == Role.BIAS
              ? Optional.empty()
              : input.fc().map(fc -> quantization(fc, attributes, shapes));
      TensorShape shape = operands.shape(input);
      tensors.add(
          new QMoeTensor(
              input,
              operands.value(input).elementType(),
              ExpertTensorLayout.expertMajor(shape, quantization)));
    }
    return tensors;
  }

  private static ExpertQuantization quantization(
      Fc fc, QMoeAttributes attributes, QMoeShapes shapes) {
    int blockSize = shapes.blockSize() == 0 ? shapes.geometry().reduction(fc) : shapes.blockSize();
    return new ExpertQuantization(attributes.bits(), blockSize, shapes.blocks(fc));
  }

  private static List<String> notes(
      QMoeSpec spec, QMoeAttributes attributes, QMoeGeometry geometry, QMoeShapes shapes) {
    List<String> notes = new ArrayList<>();
    if (spec.routerWeights() && spec.routing() == RoutingSemantics.ORT_CUDA) {
      notes.add("router_weights is not read, as ONNX Runtime's CUDA kernel does not read it.");
    }
    if (attributes.layout().isEmpty()) {
      notes.add(layoutNote(spec, geometry));
    }
    if (geometry.fusionAssumed()) {
      notes.add(
          "swiglu_fusion is absent or 0 and there is no fc3; gate and linear rows of fc1 are taken"
              + " as interleaved, as ONNX Runtime's CUDA kernel does.");
    }
    if (attributes.blockSize() != shapes.blockSize()) {
      notes.add(
          "block_size "
              + attributes.blockSize()
              + " is not below hidden and intermediate size, so every row has one scale.");
    }
    return notes;
  }

  private static String layoutNote(QMoeSpec spec, QMoeGeometry geometry) {
    return "weights_prepacked is absent or -1, which means the layout of the provider that the model"
        + " was exported for; the weights are read "
        + switch (spec.layout()) {
          case PLAIN ->
              "as plain rows, as ONNX Runtime's CPU kernel does. If the model was exported for CUDA"
                  + " they are not: re-export it with weights_prepacked=0."
                  + (geometry.shapesAreAmbiguous()
                      ? " Hidden and intermediate size are both "
                          + geometry.hidden()
                          + ", so the shapes cannot tell either."
                      : "");
          case SM80 ->
              "in the layout of ONNX Runtime's CUDA kernel, as that kernel does. If they are plain"
                  + " rows, set weights_prepacked=0.";
        };
  }
}
