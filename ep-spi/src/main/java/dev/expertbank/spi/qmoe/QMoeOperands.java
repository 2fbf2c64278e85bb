package dev.expertbank.spi.qmoe;

import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.GraphValue;
import dev.expertbank.spi.Printable;
import dev.expertbank.spi.TensorShape;
import dev.expertbank.spi.qmoe.QMoeInput.Role;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** The inputs of a QMoE node: which it has, whether they are constants, and their types. */
record QMoeOperands(GraphNode node) {
  private static final Set<ElementType> FLOATING =
      Set.of(ElementType.FLOAT, ElementType.FLOAT16, ElementType.BFLOAT16);

  /** Longer shapes are not spelled out in messages. */
  private static final int MAX_PRINTED_RANK = 8;

  boolean has(QMoeInput input) {
    return node.input(input.slot()).isPresent();
  }

  GraphValue value(QMoeInput input) {
    return node.input(input.slot())
        .orElseThrow(
            () -> new Refusal("qmoe.input", "input " + input.schemaName() + " is missing"));
  }

  /** The expert tensors that the node has, in slot order. */
  List<QMoeInput> expertTensors() {
    return Arrays.stream(QMoeInput.values()).filter(i -> i.isExpertTensor() && has(i)).toList();
  }

  /** For messages, such as {@code fc1_scales 'layers.0.scales'}. */
  String label(QMoeInput input) {
    return input.schemaName() + " " + Printable.quote(value(input).name());
  }

  /** The shape of an expert tensor; {@link #checkConstants} has made sure that it is static. */
  TensorShape shape(QMoeInput input) {
    return value(input).shape().orElseThrow(() -> unknownShape(input));
  }

  static String text(TensorShape shape) {
    return shape.rank() > MAX_PRINTED_RANK ? "of rank " + shape.rank() : shape.toString();
  }

  static String text(Optional<TensorShape> shape) {
    return shape.map(QMoeOperands::text).orElse("unknown");
  }

  void checkPresence() {
    if (node.inputs().size() > QMoeInput.values().length) {
      throw new Refusal(
          "qmoe.input",
          "the node has "
              + node.inputs().size()
              + " inputs; QMoE has at most "
              + QMoeInput.values().length);
    }
    for (QMoeInput input : QMoeInput.values()) {
      if (input.role() == Role.FLOAT_FORMAT && has(input)) {
        throw new Refusal(
            "qmoe.quant-type",
            label(input)
                + " is present; it belongs to floating-point weights, not to quant_type 'int'");
      }
    }
    List.of(QMoeInput.INPUT, QMoeInput.ROUTER_PROBS, QMoeInput.FC1_WEIGHTS, QMoeInput.FC2_WEIGHTS)
        .forEach(this::value);
    for (Fc fc : Fc.values()) {
      checkLayerPresence(fc);
    }
  }

  private void checkLayerPresence(Fc fc) {
    QMoeInput weights = QMoeInput.of(fc, Role.WEIGHTS);
    QMoeInput scales = QMoeInput.of(fc, Role.SCALES);
    if (!has(weights)) {
      for (QMoeInput other : expertTensors()) {
        if (other.fc().equals(Optional.of(fc))) {
          throw new Refusal(
              "qmoe.fc3", label(other) + " is present without " + weights.schemaName());
        }
      }
    } else if (!has(scales)) {
      throw new Refusal(
          "qmoe.scales", scales.schemaName() + " is missing; integer weights need scales");
    }
  }

  /** Every expert tensor is a constant of static shape, as long as its shape says. */
  void checkConstants() {
    for (QMoeInput input : expertTensors()) {
      GraphValue value = value(input);
      ConstantData data =
          value
              .constant()
              .orElseThrow(
                  () ->
                      new Refusal(
                          "qmoe.not-constant",
                          label(input)
                              + " is computed or can be overridden at run time; expert tensors"
                              + " must be constant initializers"));
      TensorShape shape = value.shape().orElseThrow(() -> unknownShape(input));
      if (!shape.isStatic()) {
        throw unknownShape(input);
      }
      checkLength(input, value.elementType(), shape, data);
    }
  }

  private Refusal unknownShape(QMoeInput input) {
    return new Refusal(
        "qmoe.shape",
        label(input) + " has shape " + text(value(input).shape()) + "; a static shape is needed");
  }

  private void checkLength(
      QMoeInput input, ElementType type, TensorShape shape, ConstantData data) {
    long expected;
    try {
      expected = type.bytes(shape.elementCount());
    } catch (ArithmeticException _) {
      throw new Refusal(
          "qmoe.shape", label(input) + " " + text(shape) + " has more bytes than a file can have");
    }
    if (data instanceof ConstantData.External(String _, long offset, long length)
        && (offset < 0 || length < 0 || offset > Long.MAX_VALUE - length)) {
      throw new Refusal(
          "external.range",
          label(input) + " is stated to be " + length + " bytes from offset " + offset);
    }
    // A type without a fixed size is refused as such, with the types.
    if (type.bits() != 0 && data.byteLength() != expected) {
      throw new Refusal(
          data instanceof ConstantData.External ? "external.length-mismatch" : "qmoe.shape",
          label(input)
              + " "
              + text(shape)
              + " of "
              + type
              + " takes "
              + expected
              + " bytes, but its data has "
              + data.byteLength());
    }
  }

  /** Checks all element types. */
  Types checkTypes() {
    ElementType ioType = ioType();
    for (QMoeInput input : expertTensors()) {
      ElementType type = value(input).elementType();
      switch (input.role()) {
        case WEIGHTS -> require("qmoe.type", input, type, ElementType.UINT8);
        case ZERO_POINTS -> require("qmoe.zero-points", input, type, ElementType.UINT8);
        case BIAS -> require("qmoe.bias", input, type, ioType);
        default -> {} // scales: below, since they need only agree with each other
      }
    }
    ElementType scaleType = value(QMoeInput.FC1_SCALES).elementType();
    if (!FLOATING.contains(scaleType)) {
      throw new Refusal(
          "qmoe.scales",
          label(QMoeInput.FC1_SCALES)
              + " has type "
              + scaleType
              + "; FLOAT, FLOAT16 and BFLOAT16 are supported");
    }
    for (QMoeInput input : expertTensors()) {
      if (input.role() == Role.SCALES) {
        require("qmoe.scales", input, value(input).elementType(), scaleType);
      }
    }
    return new Types(ioType, scaleType);
  }

  private void require(String code, QMoeInput input, ElementType actual, ElementType expected) {
    if (actual != expected) {
      throw new Refusal(code, label(input) + " has type " + actual + "; it must be " + expected);
    }
  }

  /**
   * The type that the input, the router's tensors, the output and the biases share. A model file
   * may leave some of them unstated.
   */
  private ElementType ioType() {
    List<Typed> known = new ArrayList<>();
    for (QMoeInput input :
        List.of(QMoeInput.INPUT, QMoeInput.ROUTER_PROBS, QMoeInput.ROUTER_WEIGHTS)) {
      node.input(input.slot()).ifPresent(v -> known.add(new Typed(label(input), v.elementType())));
    }
    for (GraphValue output : node.outputs()) {
      known.add(new Typed("output " + Printable.quote(output.name()), output.elementType()));
    }
    known.removeIf(typed -> typed.type() == ElementType.UNDEFINED);
    if (known.isEmpty()) {
      expertTensors().stream()
          .filter(input -> input.role() == Role.BIAS)
          .forEach(input -> known.add(new Typed(label(input), value(input).elementType())));
    }
    if (known.isEmpty()) {
      throw new Refusal(
          "qmoe.type",
          label(QMoeInput.INPUT)
              + " has no known element type, nor has any tensor that shares it; run ONNX shape"
              + " inference on the model");
    }
    Typed first = known.getFirst();
    if (!FLOATING.contains(first.type())) {
      throw new Refusal(
          "qmoe.type",
          first.label()
              + " has type "
              + first.type()
              + "; FLOAT, FLOAT16 and BFLOAT16 are supported");
    }
    for (Typed other : known) {
      if (other.type() != first.type()) {
        throw new Refusal(
            "qmoe.type",
            other.label()
                + " has type "
                + other.type()
                + "; it must be "
                + first.type()
                + " as "
                + first.label());
      }
    }
    return first.type();
  }

  private record Typed(String label, ElementType type) {}

  record Types(ElementType io, ElementType scale) {}
}
