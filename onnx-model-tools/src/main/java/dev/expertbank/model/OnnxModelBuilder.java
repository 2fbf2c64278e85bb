package dev.expertbank.model;

import ai.onnx.proto.OnnxMl.AttributeProto;
import ai.onnx.proto.OnnxMl.GraphProto;
import ai.onnx.proto.OnnxMl.ModelProto;
import ai.onnx.proto.OnnxMl.NodeProto;
import ai.onnx.proto.OnnxMl.OperatorSetIdProto;
import ai.onnx.proto.OnnxMl.StringStringEntryProto;
import ai.onnx.proto.OnnxMl.TensorProto;
import ai.onnx.proto.OnnxMl.TensorShapeProto;
import ai.onnx.proto.OnnxMl.TypeProto;
import ai.onnx.proto.OnnxMl.ValueInfoProto;
import com.google.protobuf.ByteString;
import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.TensorShape;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Builds an ONNX model, or the graph of an If, Loop or Scan, from given tensors and nodes.
 *
 * <p>Nothing is checked beyond what ONNX's file format demands, so that a test can build models
 * which are wrong on purpose. The same calls give the same bytes. One thread at a time.
 */
public final class OnnxModelBuilder {
  /** IR version and operator set that ONNX Runtime 1.19 and later read. */
  private static final int DEFAULT_IR_VERSION = 10;

  private static final int DEFAULT_OPSET = 21;

  private final GraphProto.Builder graph = GraphProto.newBuilder();
  private final Map<String, Long> opsets = new TreeMap<>();
  private long irVersion = DEFAULT_IR_VERSION;

  private OnnxModelBuilder(String graphName) {
    graph.setName(graphName);
    opset("", DEFAULT_OPSET);
    opset("com.microsoft", 1);
  }

  public static OnnxModelBuilder named(String graphName) {
    return new OnnxModelBuilder(graphName);
  }

  public OnnxModelBuilder irVersion(long version) {
    irVersion = version;
    return this;
  }

  /**
   * Imports an operator set; {@code ai.onnx} 21 and {@code com.microsoft} 1 are imported already.
   *
   * @param domain empty for {@code ai.onnx}
   */
  public OnnxModelBuilder opset(String domain, long version) {
    opsets.put(domain, version);
    return this;
  }

  public OnnxModelBuilder input(String name, ElementType type, Dimension... dims) {
    graph.addInput(valueInfo(name, type, dims));
    return this;
  }

  public OnnxModelBuilder output(String name, ElementType type, Dimension... dims) {
    graph.addOutput(valueInfo(name, type, dims));
    return this;
  }

  /** Declares the type of a value between nodes. */
  public OnnxModelBuilder value(String name, ElementType type, Dimension... dims) {
    graph.addValueInfo(valueInfo(name, type, dims));
    return this;
  }

  /**
   * Adds a tensor inside the model file.
   *
   * @param data little endian, packed
   */
  public OnnxModelBuilder initializer(
      String name, ElementType type, TensorShape shape, byte[] data) {
    graph.addInitializer(tensor(name, type, shape).setRawData(ByteString.copyFrom(data)));
    return this;
  }

  /** Adds a tensor whose bytes are in a file beside the model. */
  public OnnxModelBuilder initializer(
      String name, ElementType type, TensorShape shape, ConstantData.External data) {
    graph.addInitializer(
        tensor(name, type, shape)
            .setDataLocation(TensorProto.DataLocation.EXTERNAL)
            .addExternalData(entry("location", data.location()))
            .addExternalData(entry("offset", Long.toString(data.offset())))
            .addExternalData(entry("length", Long.toString(data.byteLength()))));
    return this;
  }

  /**
   * Adds a node without subgraphs.
   *
   * @param domain empty for {@code ai.onnx}
   * @param inputs value names by slot; empty for an omitted optional input
   */
  public OnnxModelBuilder node(
      String domain,
      String operatorType,
      String name,
      Map<String, AttributeValue> attributes,
      List<String> inputs,
      List<String> outputs) {
    return node(domain, operatorType, name, attributes, Map.of(), inputs, outputs);
  }

  /**
   * Adds a node.
   *
   * @param subgraphs attributes that are graphs, for example {@code then_branch}
   */
  public OnnxModelBuilder node(
      String domain,
      String operatorType,
      String name,
      Map<String, AttributeValue> attributes,
      Map<String, OnnxModelBuilder> subgraphs,
      List<String> inputs,
      List<String> outputs) {
    NodeProto.Builder node =
        NodeProto.newBuilder()
            .setDomain(domain)
            .setOpType(operatorType)
            .setName(name)
            .addAllInput(inputs)
            .addAllOutput(outputs);
    new TreeMap<>(attributes).forEach((key, value) -> node.addAttribute(attribute(key, value)));
    new TreeMap<>(subgraphs)
        .forEach(
            (key, subgraph) ->
                node.addAttribute(
                    AttributeProto.newBuilder()
                        .setName(key)
                        .setType(AttributeProto.AttributeType.GRAPH)
                        .setG(subgraph.graph)));
    graph.addNode(node);
    return this;
  }

  /** The model as a protobuf message, for what this builder has no method for. */
  public ModelProto build() {
    ModelProto.Builder model =
        ModelProto.newBuilder()
            .setIrVersion(irVersion)
            .setProducerName("expertbank")
            .setGraph(graph);
    opsets.forEach(
        (domain, version) ->
            model.addOpsetImport(
                OperatorSetIdProto.newBuilder().setDomain(domain).setVersion(version)));
    return model.build();
  }

  /** The model as the bytes of an {@code .onnx} file. */
  public byte[] toBytes() {
    return build().toByteArray();
  }

  /**
   * Writes the model; the file appears complete or not at all.
   *
   * @throws EpException as {@link AtomicFile}
   */
  public void write(Path file, boolean overwrite) {
    try (AtomicFile out = AtomicFile.create(file, overwrite)) {
      out.write(ByteBuffer.wrap(toBytes()));
      out.commit();
    }
  }

  private static TensorProto.Builder tensor(String name, ElementType type, TensorShape shape) {
    TensorProto.Builder tensor = TensorProto.newBuilder().setName(name).setDataType(type.code());
    for (long dim : shape.toArray()) {
      tensor.addDims(dim);
    }
    return tensor;
  }

  private static StringStringEntryProto entry(String key, String value) {
    return StringStringEntryProto.newBuilder().setKey(key).setValue(value).build();
  }

  private static ValueInfoProto valueInfo(String name, ElementType type, Dimension... dims) {
    TensorShapeProto.Builder shape = TensorShapeProto.newBuilder();
    for (Dimension dim : dims) {
      TensorShapeProto.Dimension.Builder out = shape.addDimBuilder();
      if (dim.isFixed()) {
        out.setDimValue(dim.size());
      } else if (!dim.symbol().isEmpty()) {
        out.setDimParam(dim.symbol());
      }
    }
    return ValueInfoProto.newBuilder()
        .setName(name)
        .setType(
            TypeProto.newBuilder()
                .setTensorType(
                    TypeProto.Tensor.newBuilder().setElemType(type.code()).setShape(shape)))
        .build();
  }

  private static AttributeProto.Builder attribute(String name, AttributeValue value) {
    AttributeProto.Builder attribute = AttributeProto.newBuilder().setName(name);
    return switch (value) {
      case AttributeValue.IntValue(long v) ->
          attribute.setType(AttributeProto.AttributeType.INT).setI(v);
      case AttributeValue.FloatValue(float v) ->
          attribute.setType(AttributeProto.AttributeType.FLOAT).setF(v);
      case AttributeValue.StringValue(String v) ->
          attribute.setType(AttributeProto.AttributeType.STRING).setS(ByteString.copyFromUtf8(v));
      case AttributeValue.Ints(List<Long> v) ->
          attribute.setType(AttributeProto.AttributeType.INTS).addAllInts(v);
      case AttributeValue.Floats(List<Float> v) ->
          attribute.setType(AttributeProto.AttributeType.FLOATS).addAllFloats(v);
      case AttributeValue.Strings(List<String> v) ->
          attribute
              .setType(AttributeProto.AttributeType.STRINGS)
              .addAllStrings(v.stream().map(ByteString::copyFromUtf8).toList());
      case AttributeValue.Opaque(String type) ->
          throw new IllegalArgumentException(
              "attribute " + name + " of type " + type + " has no value here");
    };
  }
}
