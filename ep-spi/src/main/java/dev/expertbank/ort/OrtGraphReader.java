package dev.expertbank.ort;

import static dev.expertbank.ort.OrtFunction.*;

import dev.expertbank.natives.Native;
import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.ExternalDataFile;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.GraphValue;
import dev.expertbank.spi.TensorShape;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Reads an {@code OrtGraph} into plain data. Confined to the callback that was given the graph:
 * inline constants of the nodes it returns can be read only until {@link #close}.
 */
final class OrtGraphReader implements AutoCloseable {
  private static final int ATTRIBUTE_INT = 1;
  private static final int ATTRIBUTE_INTS = 2;
  private static final int ATTRIBUTE_FLOAT = 3;
  private static final int ATTRIBUTE_FLOATS = 4;
  private static final int ATTRIBUTE_STRING = 5;

  private final OrtCalls calls = new OrtCalls();
  private boolean closed;

  /** A node and the name of the provider that it is placed on, empty if on none. */
  record Entry(GraphNode node, String epName) {}

  /** The graph's name, behind the names of the nodes that it is a body of. */
  String graphName(long graph) {
    String name = calls.string(GRAPH_GET_NAME, graph);
    long parent = calls.pointer(GRAPH_GET_PARENT_NODE, graph);
    return parent == 0 ? name : calls.string(NODE_GET_NAME, parent) + "/" + name;
  }

  /** The folder that external data is relative to; the working directory for a model from bytes. */
  Path modelDirectory(long graph) {
    String modelPath = calls.string(GRAPH_GET_MODEL_PATH, graph);
    if (modelPath.isEmpty()) {
      return Path.of("").toAbsolutePath();
    }
    Path model = Path.of(modelPath).toAbsolutePath();
    if (Files.exists(model)) {
      return ExternalDataFile.modelDirectory(model);
    }
    // A model from bytes whose session options name a folder has the path of no file in it.
    return Objects.requireNonNull(model.getParent());
  }

  /** The handles of the nodes of a graph, each for {@link #entry}. */
  List<Long> nodes(long graph) {
    return calls.array(GRAPH_GET_NUM_NODES, GRAPH_GET_NODES, graph);
  }

  Entry entry(long handle) {
    return new Entry(node(handle), calls.string(NODE_GET_EP_NAME, handle));
  }

  private GraphNode node(long handle) {
    List<@Nullable GraphValue> inputs = new ArrayList<>();
    for (long info : calls.array(NODE_GET_NUM_INPUTS, NODE_GET_INPUTS, handle)) {
      inputs.add(info == 0 ? null : value(info));
    }
    List<GraphValue> outputs = new ArrayList<>();
    for (long info : calls.array(NODE_GET_NUM_OUTPUTS, NODE_GET_OUTPUTS, handle)) {
      if (info != 0) {
        outputs.add(value(info));
      }
    }
    return new GraphNode(
        calls.string(NODE_GET_NAME, handle),
        calls.string(NODE_GET_DOMAIN, handle),
        calls.string(NODE_GET_OPERATOR_TYPE, handle),
        calls.integer(NODE_GET_SINCE_VERSION, handle),
        attributes(handle),
        inputs,
        outputs);
  }

  /** Names of the existing inputs of a node, in order. */
  List<String> inputNames(long node) {
    return calls.array(NODE_GET_NUM_INPUTS, NODE_GET_INPUTS, node).stream()
        .filter(info -> info != 0)
        .map(info -> calls.string(GET_VALUE_INFO_NAME, info))
        .toList();
  }

  private GraphValue value(long info) {
    ElementType type = ElementType.UNDEFINED;
    Optional<TensorShape> shape = Optional.empty();
    long typeInfo = calls.pointer(GET_VALUE_INFO_TYPE_INFO, info);
    long tensorInfo = typeInfo == 0 ? 0 : calls.pointer(CAST_TYPE_INFO_TO_TENSOR_INFO, typeInfo);
    if (tensorInfo != 0) {
      type = ElementType.ofCode(calls.integer(GET_TENSOR_ELEMENT_TYPE, tensorInfo));
      shape = shape(tensorInfo);
    }
    return new GraphValue(calls.string(GET_VALUE_INFO_NAME, info), type, shape, constant(info));
  }

  /** ONNX Runtime reports an unknown rank like a scalar's: both give no shape here. */
  private Optional<TensorShape> shape(long tensorInfo) {
    int rank = Math.toIntExact(calls.pointer(GET_DIMENSIONS_COUNT, tensorInfo));
    if (rank == 0) {
      return Optional.empty();
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment dims = arena.allocate(ValueLayout.JAVA_LONG, rank);
      OrtStatus.check(
          (long) GET_DIMENSIONS.handle().invokeExact(tensorInfo, dims.address(), (long) rank),
          GET_DIMENSIONS);
      return Optional.of(TensorShape.of(dims.toArray(ValueLayout.JAVA_LONG)));
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  private Optional<ConstantData> constant(long info) {
    if (!calls.bool(VALUE_INFO_IS_CONSTANT_INITIALIZER, info)) {
      return Optional.empty();
    }
    long external = calls.pointer(VALUE_INFO_GET_EXTERNAL_INITIALIZER_INFO, info);
    if (external != 0) {
      try {
        return Optional.of(
            new ConstantData.External(
                Native.string(OrtCalls.get(EXTERNAL_INITIALIZER_INFO_GET_FILE_PATH, external)),
                OrtCalls.get(EXTERNAL_INITIALIZER_INFO_GET_FILE_OFFSET, external),
                OrtCalls.get(EXTERNAL_INITIALIZER_INFO_GET_BYTE_SIZE, external)));
      } finally {
        OrtCalls.release(RELEASE_EXTERNAL_INITIALIZER_INFO, external);
      }
    }
    long ortValue = calls.pointer(VALUE_INFO_GET_INITIALIZER_VALUE, info);
    if (ortValue == 0) {
      return Optional.empty();
    }
    long byteLength = calls.pointer(GET_TENSOR_SIZE_IN_BYTES, ortValue);
    return Optional.of(
        new ConstantData.Inline(byteLength, target -> readInline(info, byteLength, target)));
  }

  private void readInline(long info, long byteLength, MemorySegment target) {
    if (closed) {
      throw new IllegalStateException("inline constants are readable only while the node is given");
    }
    if (byteLength > 0) {
      long ortValue = calls.pointer(VALUE_INFO_GET_INITIALIZER_VALUE, info);
      long data = calls.pointer(GET_TENSOR_DATA, ortValue);
      target.copyFrom(Native.view(data, byteLength));
    }
  }

  private Map<String, AttributeValue> attributes(long node) {
    Map<String, AttributeValue> attributes = new LinkedHashMap<>();
    for (long attribute : calls.array(NODE_GET_NUM_ATTRIBUTES, NODE_GET_ATTRIBUTES, node)) {
      attributes.put(calls.string(OP_ATTR_GET_NAME, attribute), attribute(attribute));
    }
    return attributes;
  }

  private AttributeValue attribute(long attribute) {
    int type = calls.integer(OP_ATTR_GET_TYPE, attribute);
    return switch (type) {
      case ATTRIBUTE_INT ->
          new AttributeValue.IntValue(read(attribute, type, 8).get(ValueLayout.JAVA_LONG, 0));
      case ATTRIBUTE_FLOAT ->
          new AttributeValue.FloatValue(read(attribute, type, 4).get(ValueLayout.JAVA_FLOAT, 0));
      case ATTRIBUTE_STRING ->
          new AttributeValue.StringValue(
              new String(
                  sized(attribute, type).toArray(ValueLayout.JAVA_BYTE), StandardCharsets.UTF_8));
      case ATTRIBUTE_INTS ->
          new AttributeValue.Ints(
              sized(attribute, type)
                  .elements(ValueLayout.JAVA_LONG)
                  .map(s -> s.get(ValueLayout.JAVA_LONG, 0))
                  .toList());
      case ATTRIBUTE_FLOATS ->
          new AttributeValue.Floats(
              sized(attribute, type)
                  .elements(ValueLayout.JAVA_FLOAT)
                  .map(s -> s.get(ValueLayout.JAVA_FLOAT, 0))
                  .toList());
      default -> new AttributeValue.Opaque("OrtOpAttrType " + type);
    };
  }

  /** Reads an attribute whose size is only known to ONNX Runtime: ask first, then read. */
  private MemorySegment sized(long attribute, int type) {
    MemorySegment size = Arena.ofAuto().allocate(ValueLayout.JAVA_LONG);
    // With no room given, the call fails and still reports the size that it needs.
    long status = readOpAttr(attribute, type, MemorySegment.NULL, 0, size);
    long bytes = size.get(ValueLayout.JAVA_LONG, 0);
    if (status != 0) {
      OrtCalls.release(RELEASE_STATUS, status);
    }
    return bytes == 0 ? MemorySegment.NULL : read(attribute, type, bytes);
  }

  private MemorySegment read(long attribute, int type, long bytes) {
    Arena arena = Arena.ofAuto();
    MemorySegment data = arena.allocate(bytes, 8);
    MemorySegment size = arena.allocate(ValueLayout.JAVA_LONG);
    OrtStatus.check(readOpAttr(attribute, type, data, bytes, size), READ_OP_ATTR);
    return data.asSlice(0, Math.min(bytes, size.get(ValueLayout.JAVA_LONG, 0)));
  }

  private static long readOpAttr(
      long attribute, int type, MemorySegment data, long bytes, MemorySegment size) {
    try {
      return (long)
          READ_OP_ATTR.handle().invokeExact(attribute, type, data.address(), bytes, size.address());
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void close() {
    closed = true;
    calls.close();
  }
}
