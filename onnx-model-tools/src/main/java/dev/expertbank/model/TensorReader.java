package dev.expertbank.model;

import ai.onnx.proto.OnnxMl.StringStringEntryProto;
import ai.onnx.proto.OnnxMl.TensorProto;
import com.google.protobuf.ByteString;
import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.Printable;
import dev.expertbank.spi.TensorShape;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Reads one stored tensor: its shape, and where its bytes are. */
final class TensorReader {
  private static final int MAX_RANK = 64;

  /** External-data keys that say where the bytes are; a checksum is not verified. */
  private static final Set<String> KEYS = Set.of("location", "offset", "length", "checksum");

  /** ONNX Runtime's prefix for entries on weights that it laid out itself; not used here. */
  private static final String PREPACKED_PREFIX = "prepacked";

  private static final Pattern NUMBER = Pattern.compile("[0-9]{1,20}");

  private final TensorProto tensor;
  private final String owner;
  private final ElementType type;

  private TensorReader(TensorProto tensor, String name, String graph) {
    this.tensor = tensor;
    this.owner = "initializer " + Printable.quote(name) + " of graph " + Printable.quote(graph);
    this.type = ElementType.ofCode(tensor.getDataType());
  }

  /**
   * Reads a tensor.
   *
   * @param name the tensor's own, or that of the output of the Constant node which holds it
   * @param graph named in errors
   * @throws EpException {@code model.dims}, {@code model.tensor-size}, {@code external.key} or
   *     {@code external.number}
   */
  static OnnxInitializer read(TensorProto tensor, String name, String graph, boolean overridable) {
    TensorReader reader = new TensorReader(tensor, name, graph);
    TensorShape shape = reader.shape();
    ConstantData data =
        tensor.getDataLocation() == TensorProto.DataLocation.EXTERNAL
            ? reader.external(shape)
            : reader.inline(shape);
    return new OnnxInitializer(name, reader.type, shape, data, overridable);
  }

  /** The shape, whose size in bytes must fit a long even where a dimension is 0. */
  private TensorShape shape() {
    if (tensor.getDimsCount() > MAX_RANK) {
      throw new EpException(
          "model.dims",
          owner
              + " has "
              + tensor.getDimsCount()
              + " dimensions; at most "
              + MAX_RANK
              + " are read");
    }
    long[] dims = new long[tensor.getDimsCount()];
    long bits = Math.max(type.bits(), 8);
    for (int i = 0; i < dims.length; i++) {
      dims[i] = tensor.getDims(i);
      if (dims[i] < 0) {
        throw new EpException("model.dims", owner + " has dimension " + dims[i] + " at index " + i);
      }
      try {
        bits = Math.multiplyExact(bits, Math.max(dims[i], 1));
      } catch (ArithmeticException e) {
        throw new EpException(
            "model.dims", owner + " has dimensions whose product is no 64-bit size", e);
      }
    }
    return TensorShape.of(dims);
  }

  private ConstantData external(TensorShape shape) {
    if (hasInlineData()) {
      throw key("has both inline and external data");
    }
    Map<String, String> entries = new HashMap<>();
    for (StringStringEntryProto entry : tensor.getExternalDataList()) {
      String key = entry.getKey();
      if (key.startsWith(PREPACKED_PREFIX)) {
        continue;
      }
      if (!KEYS.contains(key)) {
        throw key("has the unknown external-data key " + Printable.quote(key));
      }
      if (entries.put(key, entry.getValue()) != null) {
        throw key("states the external-data key '" + key + "' twice");
      }
    }
    String location = entries.get("location");
    if (location == null) {
      throw key("has external data without a location");
    }
    String length = entries.get("length");
    long bytes = length == null ? computedLength(shape) : number("length", length);
    return new ConstantData.External(
        location, number("offset", entries.getOrDefault("offset", "0")), bytes);
  }

  private long computedLength(TensorShape shape) {
    if (type.bits() == 0) {
      throw key("has external data of type " + tensor.getDataType() + " without a length");
    }
    return type.bytes(shape.elementCount());
  }

  private long number(String key, String text) {
    if (NUMBER.matcher(text).matches()) {
      try {
        return Long.parseLong(text);
      } catch (NumberFormatException e) {
        // Digits only, so it is too large: reported below with every other bad number.
      }
    }
    throw new EpException(
        "external.number",
        owner
            + " has the external-data "
            + key
            + " "
            + Printable.quote(text)
            + "; it must be a decimal number from 0 to "
            + Long.MAX_VALUE);
  }

  private EpException key(String what) {
    return new EpException("external.key", owner + " " + what);
  }

  private boolean hasInlineData() {
    return tensor.hasRawData() || typedCount() > 0 || tensor.getStringDataCount() > 0;
  }

  private int typedCount() {
    return tensor.getFloatDataCount()
        + tensor.getInt32DataCount()
        + tensor.getInt64DataCount()
        + tensor.getDoubleDataCount()
        + tensor.getUint64DataCount();
  }

  private ConstantData inline(TensorShape shape) {
    if (tensor.getExternalDataCount() > 0) {
      throw key("has external-data entries, but its data location is not external");
    }
    if (tensor.hasRawData()) {
      ByteString raw = tensor.getRawData();
      if (type.bits() > 0) {
        requireSize(raw.size(), type.bytes(shape.elementCount()), "bytes");
      }
      return new ConstantData.Inline(raw.size(), target -> copy(raw, target));
    }
    if (type == ElementType.STRING || type == ElementType.UNDEFINED) {
      ByteString joined = ByteString.copyFrom(tensor.getStringDataList());
      return new ConstantData.Inline(joined.size(), target -> copy(joined, target));
    }
    long bytes = type.bytes(shape.elementCount());
    Values values = values();
    int width = values == null ? 1 : values.width();
    requireSize(values == null ? typedCount() : values.count(), bytes / width, "values");
    return new ConstantData.Inline(
        bytes,
        target -> {
          if (values != null) {
            copyValues(values, target);
          }
        });
  }

  private void requireSize(long actual, long expected, String unit) {
    if (actual != expected) {
      throw new EpException(
          "model.tensor-size",
          owner
              + " of type "
              + type
              + " has "
              + actual
              + " "
              + unit
              + " where its shape takes "
              + expected);
    }
  }

  /** Numbers of a typed field: how many, how many bytes each fills, and each as raw bits. */
  private record Values(int count, int width, Bits bits) {
    interface Bits {
      long at(int index);
    }
  }

  /**
   * The typed field that onnx.proto gives this element type. Types of less than 8 bits have one
   * int32 per byte of packed elements.
   */
  private @Nullable Values values() {
    return switch (type) {
      case FLOAT, COMPLEX64 ->
          new Values(
              tensor.getFloatDataCount(),
              Float.BYTES,
              i -> Float.floatToRawIntBits(tensor.getFloatData(i)));
      case DOUBLE, COMPLEX128 ->
          new Values(
              tensor.getDoubleDataCount(),
              Double.BYTES,
              i -> Double.doubleToRawLongBits(tensor.getDoubleData(i)));
      case INT64 -> new Values(tensor.getInt64DataCount(), Long.BYTES, tensor::getInt64Data);
      case UINT64 -> new Values(tensor.getUint64DataCount(), Long.BYTES, tensor::getUint64Data);
      case UINT32 -> new Values(tensor.getUint64DataCount(), Integer.BYTES, tensor::getUint64Data);
      case STRING, UNDEFINED -> null;
      default ->
          new Values(
              tensor.getInt32DataCount(), Math.max(type.bits(), 8) / 8, tensor::getInt32Data);
    };
  }

  private static void copy(ByteString bytes, MemorySegment target) {
    MemorySegment.copy(
        MemorySegment.ofBuffer(bytes.asReadOnlyByteBuffer()), 0, target, 0, bytes.size());
  }

  private static void copyValues(Values values, MemorySegment target) {
    ByteBuffer one = ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    MemorySegment source = MemorySegment.ofBuffer(one);
    for (int i = 0; i < values.count(); i++) {
      one.putLong(0, values.bits().at(i));
      MemorySegment.copy(source, 0, target, (long) i * values.width(), values.width());
    }
  }
}
