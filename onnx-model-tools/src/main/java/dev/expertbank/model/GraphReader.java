package dev.expertbank.model;

import ai.onnx.proto.OnnxMl.AttributeProto;
import ai.onnx.proto.OnnxMl.FunctionProto;
import ai.onnx.proto.OnnxMl.GraphProto;
import ai.onnx.proto.OnnxMl.NodeProto;
import ai.onnx.proto.OnnxMl.TensorProto;
import ai.onnx.proto.OnnxMl.TensorShapeProto;
import ai.onnx.proto.OnnxMl.TypeProto;
import ai.onnx.proto.OnnxMl.ValueInfoProto;
import com.google.protobuf.ByteString;
import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.GraphValue;
import dev.expertbank.spi.Printable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Turns protobuf graphs into plain records, resolving names in the scopes around them. */
final class GraphReader {
  /** Before this version every initializer had to be listed as a graph input. */
  private static final long OVERRIDABLE_SINCE_IR_VERSION = 4;

  private final long irVersion;
  private final Map<String, Long> opsets;

  GraphReader(long irVersion, Map<String, Long> opsets) {
    this.irVersion = irVersion;
    this.opsets = opsets;
  }

  /** Values by name, looked up in the graph itself, then in the graphs around it. */
  private static final class Scope {
    private final @Nullable Scope outer;
    private final Map<String, GraphValue> values = new HashMap<>();

    Scope(@Nullable Scope outer) {
      this.outer = outer;
    }

    void define(GraphValue value) {
      values.put(value.name(), value);
    }

    void defineIfAbsent(String name) {
      values.computeIfAbsent(name, GraphReader::unknown);
    }

    GraphValue resolve(String name) {
      for (Scope scope = this; scope != null; scope = scope.outer) {
        GraphValue value = scope.values.get(name);
        if (value != null) {
          return value;
        }
      }
      return unknown(name);
    }
  }

  OnnxGraph read(GraphProto graph, String path) {
    return read(graph, path, null);
  }

  /** The body of a model-local function, whose formal inputs have no type. */
  OnnxGraph readFunction(FunctionProto function) {
    String path = "function " + function.getDomain() + "::" + function.getName();
    GraphProto body =
        GraphProto.newBuilder()
            .addAllNode(function.getNodeList())
            .addAllValueInfo(function.getValueInfoList())
            .addAllInput(untyped(function.getInputList()))
            .addAllOutput(untyped(function.getOutputList()))
            .build();
    return read(body, path, null);
  }

  private static List<ValueInfoProto> untyped(List<String> names) {
    return names.stream().map(n -> ValueInfoProto.newBuilder().setName(n).build()).toList();
  }

  private OnnxGraph read(GraphProto graph, String path, @Nullable Scope outer) {
    List<ValueInfo> inputs = graph.getInputList().stream().map(GraphReader::valueInfo).toList();
    List<ValueInfo> outputs = graph.getOutputList().stream().map(GraphReader::valueInfo).toList();
    Scope scope = new Scope(outer);
    graph.getValueInfoList().forEach(v -> scope.define(value(valueInfo(v))));
    outputs.forEach(v -> scope.define(value(v)));
    inputs.forEach(v -> scope.define(value(v)));
    List<OnnxInitializer> initializers = initializers(graph, path, inputs);
    initializers.forEach(i -> scope.define(value(i)));
    for (NodeProto node : graph.getNodeList()) {
      node.getOutputList().forEach(scope::defineIfAbsent);
    }
    List<GraphNode> nodes = new ArrayList<>(graph.getNodeCount());
    List<OnnxGraph> subgraphs = new ArrayList<>();
    for (int i = 0; i < graph.getNodeCount(); i++) {
      NodeProto node = graph.getNode(i);
      String nodePath = path + "/" + (node.getName().isEmpty() ? "node " + i : node.getName());
      nodes.add(node(node, nodePath, scope));
      for (AttributeProto attribute : node.getAttributeList()) {
        String attributePath = nodePath + "." + attribute.getName();
        if (attribute.hasG()) {
          subgraphs.add(read(attribute.getG(), attributePath, scope));
        }
        for (int g = 0; g < attribute.getGraphsCount(); g++) {
          subgraphs.add(read(attribute.getGraphs(g), attributePath + "[" + g + "]", scope));
        }
      }
    }
    return new OnnxGraph(path, nodes, initializers, inputs, outputs, subgraphs);
  }

  /** Stored tensors; ONNX Runtime turns the tensor of a Constant node into one of them as well. */
  private List<OnnxInitializer> initializers(
      GraphProto graph, String path, List<ValueInfo> inputs) {
    Set<String> overridable = new HashSet<>();
    if (irVersion >= OVERRIDABLE_SINCE_IR_VERSION) {
      inputs.forEach(i -> overridable.add(i.name()));
    }
    Map<String, OnnxInitializer> byName = new LinkedHashMap<>();
    for (TensorProto tensor : graph.getInitializerList()) {
      String name = tensor.getName();
      add(byName, TensorReader.read(tensor, name, path, overridable.contains(name)), path);
    }
    for (NodeProto node : graph.getNodeList()) {
      if (node.getDomain().isEmpty()
          && node.getOpType().equals("Constant")
          && node.getOutputCount() == 1
          && node.getAttributeCount() == 1
          && node.getAttribute(0).hasT()) {
        TensorProto tensor = node.getAttribute(0).getT();
        add(byName, TensorReader.read(tensor, node.getOutput(0), path, false), path);
      }
    }
    return List.copyOf(byName.values());
  }

  private static void add(
      Map<String, OnnxInitializer> byName, OnnxInitializer initializer, String path) {
    if (byName.put(initializer.name(), initializer) != null) {
      throw new EpException(
          "model.duplicate",
          "graph "
              + Printable.quote(path)
              + " has two initializers named "
              + Printable.quote(initializer.name()));
    }
  }

  // The class file of GraphNode does not say that its list of inputs may hold nulls.
  @SuppressWarnings("NullAway")
  private GraphNode node(NodeProto node, String path, Scope scope) {
    Map<String, AttributeValue> attributes = new HashMap<>();
    for (AttributeProto attribute : node.getAttributeList()) {
      if (attributes.put(attribute.getName(), attribute(attribute)) != null) {
        throw new EpException(
            "model.duplicate",
            "node "
                + Printable.quote(path)
                + " states the attribute "
                + Printable.quote(attribute.getName())
                + " twice");
      }
    }
    List<@Nullable GraphValue> inputs = new ArrayList<>(node.getInputCount());
    for (String name : node.getInputList()) {
      inputs.add(name.isEmpty() ? null : scope.resolve(name));
    }
    String domain = node.getDomain().equals("ai.onnx") ? "" : node.getDomain();
    long opset = opsets.getOrDefault(domain.isEmpty() ? "ai.onnx" : domain, 1L);
    return new GraphNode(
        node.getName(),
        domain,
        node.getOpType(),
        Math.clamp(opset, 1, Integer.MAX_VALUE),
        attributes,
        inputs,
        node.getOutputList().stream().map(scope::resolve).toList());
  }

  private static AttributeValue attribute(AttributeProto attribute) {
    if (!attribute.getRefAttrName().isEmpty()) {
      return new AttributeValue.Opaque("reference to a function's attribute");
    }
    return switch (type(attribute)) {
      case INT -> new AttributeValue.IntValue(attribute.getI());
      case FLOAT -> new AttributeValue.FloatValue(attribute.getF());
      case STRING -> new AttributeValue.StringValue(attribute.getS().toStringUtf8());
      case INTS -> new AttributeValue.Ints(attribute.getIntsList());
      case FLOATS -> new AttributeValue.Floats(attribute.getFloatsList());
      case STRINGS ->
          new AttributeValue.Strings(
              attribute.getStringsList().stream().map(ByteString::toStringUtf8).toList());
      default -> new AttributeValue.Opaque(type(attribute).name());
    };
  }

  /** The stated type, or for files from before types were stated the field that is set. */
  private static AttributeProto.AttributeType type(AttributeProto attribute) {
    if (attribute.getType() != AttributeProto.AttributeType.UNDEFINED) {
      return attribute.getType();
    }
    if (attribute.hasI()) {
      return AttributeProto.AttributeType.INT;
    }
    if (attribute.hasF()) {
      return AttributeProto.AttributeType.FLOAT;
    }
    if (attribute.hasS()) {
      return AttributeProto.AttributeType.STRING;
    }
    return AttributeProto.AttributeType.UNDEFINED;
  }

  private static GraphValue unknown(String name) {
    return new GraphValue(name, ElementType.UNDEFINED, Optional.empty(), Optional.empty());
  }

  private static GraphValue value(ValueInfo info) {
    return new GraphValue(info.name(), info.elementType(), info.shape(), Optional.empty());
  }

  private static GraphValue value(OnnxInitializer initializer) {
    Optional<ConstantData> constant =
        initializer.overridable() ? Optional.empty() : Optional.of(initializer.data());
    return new GraphValue(
        initializer.name(), initializer.elementType(), Optional.of(initializer.shape()), constant);
  }

  private static ValueInfo valueInfo(ValueInfoProto info) {
    TypeProto type = info.getType();
    if (!type.hasTensorType()) {
      return new ValueInfo(info.getName(), ElementType.UNDEFINED, Optional.empty());
    }
    TypeProto.Tensor tensor = type.getTensorType();
    Optional<List<Dimension>> dims =
        tensor.hasShape()
            ? Optional.of(
                tensor.getShape().getDimList().stream().map(GraphReader::dimension).toList())
            : Optional.empty();
    return new ValueInfo(info.getName(), ElementType.ofCode(tensor.getElemType()), dims);
  }

  private static Dimension dimension(TensorShapeProto.Dimension dim) {
    return switch (dim.getValueCase()) {
      case DIM_VALUE ->
          dim.getDimValue() < 0 ? Dimension.unknown() : Dimension.of(dim.getDimValue());
      case DIM_PARAM -> Dimension.symbolic(dim.getDimParam());
      case VALUE_NOT_SET -> Dimension.unknown();
    };
  }
}
