package dev.expertbank.tests.host;

import ai.onnx.proto.OnnxMl;
import ai.onnx.proto.OnnxMl.GraphProto;
import ai.onnx.proto.OnnxMl.ModelProto;
import ai.onnx.proto.OnnxMl.NodeProto;
import ai.onnx.proto.OnnxMl.OperatorSetIdProto;
import ai.onnx.proto.OnnxMl.TensorProto;
import ai.onnx.proto.OnnxMl.TensorShapeProto;
import ai.onnx.proto.OnnxMl.TypeProto;
import ai.onnx.proto.OnnxMl.ValueInfoProto;
import java.util.List;

/** Models of a few float nodes. */
final class SmallModels {
  private SmallModels() {}

  /** {@code x [n] → op → op → … → y [n]}, one node per operator. */
  static byte[] chain(String... operators) {
    GraphProto.Builder graph =
        GraphProto.newBuilder()
            .setName("chain")
            .addInput(floatVector("x"))
            .addOutput(floatVector("y"));
    String previous = "x";
    for (int i = 0; i < operators.length; i++) {
      String next = i == operators.length - 1 ? "y" : "v" + i;
      graph.addNode(node(operators[i], "n" + i, previous, next));
      previous = next;
    }
    return model(graph).toByteArray();
  }

  static NodeProto node(String operator, String name, String input, String output) {
    return NodeProto.newBuilder()
        .setOpType(operator)
        .setName(name)
        .addInput(input)
        .addOutput(output)
        .build();
  }

  static ModelProto model(GraphProto.Builder graph) {
    return ModelProto.newBuilder()
        .setIrVersion(10)
        .setProducerName("expertbank-tests")
        .addAllOpsetImport(
            List.of(
                OperatorSetIdProto.newBuilder().setVersion(21).build(),
                OperatorSetIdProto.newBuilder().setDomain("com.microsoft").setVersion(1).build()))
        .setGraph(graph)
        .build();
  }

  static ValueInfoProto floatVector(String name) {
    return ValueInfoProto.newBuilder()
        .setName(name)
        .setType(
            TypeProto.newBuilder()
                .setTensorType(
                    TypeProto.Tensor.newBuilder()
                        .setElemType(TensorProto.DataType.FLOAT.getNumber())
                        .setShape(
                            TensorShapeProto.newBuilder()
                                .addDim(
                                    OnnxMl.TensorShapeProto.Dimension.newBuilder()
                                        .setDimParam("n")))))
        .build();
  }
}
