package dev.expertbank.tests;

import ai.onnx.proto.OnnxMl;
import com.google.protobuf.ByteString;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Builds one-node models. The leading dimensions of graph inputs and of the output are symbolic, as
 * in exported models; everything else is fixed.
 */
final class OnnxModels {
  private static final int IR_VERSION = 10;
  private static final int ONNX_OPSET = 21;
  private static final int ALIGNMENT = 64;
  private static final String WEIGHTS_FILE = "weights.bin";

  private OnnxModels() {}

  /** The serialized model with every weight inside it. */
  static byte[] inline(MoeNode node) {
    return model(
            node,
            (slot, tensor) -> tensor.setRawData(ByteString.copyFrom(node.required(slot).bytes())))
        .toByteArray();
  }

  /**
   * Writes {@code model.onnx} and {@code weights.bin}.
   *
   * @param oddSlot the weight that starts at an odd file offset; all others start at multiples of
   *     64
   * @return the path of the model
   */
  static Path external(MoeNode node, Path directory, int oddSlot) throws IOException {
    var bank = new ByteArrayOutputStream();
    OnnxMl.ModelProto model =
        model(
            node,
            (slot, tensor) -> {
              int padding = -bank.size() & (ALIGNMENT - 1);
              bank.writeBytes(new byte[slot == oddSlot ? padding + 1 : padding]);
              byte[] bytes = node.required(slot).bytes();
              tensor
                  .setDataLocation(OnnxMl.TensorProto.DataLocation.EXTERNAL)
                  .addExternalData(entry("location", WEIGHTS_FILE))
                  .addExternalData(entry("offset", Integer.toString(bank.size())))
                  .addExternalData(entry("length", Integer.toString(bytes.length)));
              bank.writeBytes(bytes);
            });
    Files.write(directory.resolve(WEIGHTS_FILE), bank.toByteArray());
    return Files.write(directory.resolve("model.onnx"), model.toByteArray());
  }

  private static OnnxMl.StringStringEntryProto entry(String key, String value) {
    return OnnxMl.StringStringEntryProto.newBuilder().setKey(key).setValue(value).build();
  }

  @FunctionalInterface
  private interface ContentWriter {
    void write(int slot, OnnxMl.TensorProto.Builder tensor);
  }

  private static OnnxMl.ModelProto model(MoeNode node, ContentWriter content) {
    OnnxMl.GraphProto.Builder graph = OnnxMl.GraphProto.newBuilder().setName("one_node");
    OnnxMl.NodeProto.Builder proto =
        OnnxMl.NodeProto.newBuilder()
            .setName("moe")
            .setDomain("com.microsoft")
            .setOpType(node.operator())
            .addOutput("output");
    for (int slot = 0; slot < node.inputs().size(); slot++) {
      @Nullable TensorData tensor = node.inputs().get(slot);
      String name = tensor == null ? "" : inputName(slot);
      proto.addInput(name);
      if (tensor != null && node.isGraphInput(slot)) {
        graph.addInput(valueInfo(name, tensor));
      } else if (tensor != null) {
        OnnxMl.TensorProto.Builder weight =
            OnnxMl.TensorProto.newBuilder().setName(name).setDataType(tensor.type().code());
        for (long dimension : tensor.shape()) {
          weight.addDims(dimension);
        }
        content.write(slot, weight);
        graph.addInitializer(weight);
      }
    }
    node.attributes().forEach((name, value) -> proto.addAttribute(attribute(name, value)));
    graph.addNode(proto).addOutput(valueInfo("output", node.required(MoeNode.INPUT)));
    return OnnxMl.ModelProto.newBuilder()
        .setIrVersion(IR_VERSION)
        .addOpsetImport(OnnxMl.OperatorSetIdProto.newBuilder().setVersion(ONNX_OPSET))
        .addOpsetImport(
            OnnxMl.OperatorSetIdProto.newBuilder().setDomain("com.microsoft").setVersion(1))
        .setGraph(graph)
        .build();
  }

  /** Name of the graph input or initializer in that slot. */
  static String inputName(int slot) {
    return "input_" + slot;
  }

  private static OnnxMl.ValueInfoProto valueInfo(String name, TensorData tensor) {
    OnnxMl.TensorShapeProto.Builder shape = OnnxMl.TensorShapeProto.newBuilder();
    for (int axis = 0; axis < tensor.rank(); axis++) {
      OnnxMl.TensorShapeProto.Dimension.Builder dimension = shape.addDimBuilder();
      if (axis < tensor.rank() - 1) {
        dimension.setDimParam("leading_" + tensor.rank() + "_" + axis);
      } else {
        dimension.setDimValue(tensor.dimension(axis));
      }
    }
    return OnnxMl.ValueInfoProto.newBuilder()
        .setName(name)
        .setType(
            OnnxMl.TypeProto.newBuilder()
                .setTensorType(
                    OnnxMl.TypeProto.Tensor.newBuilder()
                        .setElemType(tensor.type().code())
                        .setShape(shape)))
        .build();
  }

  private static OnnxMl.AttributeProto attribute(String name, Object value) {
    OnnxMl.AttributeProto.Builder attribute = OnnxMl.AttributeProto.newBuilder().setName(name);
    return switch (value) {
      case Long number ->
          attribute.setType(OnnxMl.AttributeProto.AttributeType.INT).setI(number).build();
      case Float number ->
          attribute.setType(OnnxMl.AttributeProto.AttributeType.FLOAT).setF(number).build();
      case String text ->
          attribute
              .setType(OnnxMl.AttributeProto.AttributeType.STRING)
              .setS(ByteString.copyFromUtf8(text))
              .build();
      default -> throw new IllegalArgumentException("attribute " + name + " = " + value);
    };
  }
}
