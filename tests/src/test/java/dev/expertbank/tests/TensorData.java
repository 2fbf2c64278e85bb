package dev.expertbank.tests;

import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import dev.expertbank.spi.ElementType;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/** One tensor as ONNX stores it: little-endian bytes, row-major. Immutable. */
final class TensorData {
  private final ElementType type;
  private final long[] shape;
  private final byte[] bytes;

  private TensorData(ElementType type, long[] shape, byte[] bytes) {
    if (bytes.length != type.bytes(elements(shape))) {
      throw new IllegalArgumentException(
          bytes.length + " bytes do not fill " + type + Arrays.toString(shape));
    }
    this.type = type;
    this.shape = shape.clone();
    this.bytes = bytes;
  }

  /** A tensor of these values, each rounded to nearest, ties to even. */
  static TensorData of(ElementType type, long[] shape, double[] values) {
    ByteBuffer buffer =
        ByteBuffer.allocate(Math.toIntExact(type.bytes(values.length)))
            .order(ByteOrder.LITTLE_ENDIAN);
    for (double value : values) {
      switch (type) {
        case FLOAT -> buffer.putFloat((float) value);
        case FLOAT16 -> buffer.putShort(Float.floatToFloat16((float) value));
        case BFLOAT16 -> buffer.putShort(toBfloat16((float) value));
        case UINT8 -> buffer.put(toUint8(value));
        default -> throw new IllegalArgumentException("no encoder for " + type);
      }
    }
    return new TensorData(type, shape, buffer.array());
  }

  static TensorData ofBytes(long[] shape, byte[] bytes) {
    return new TensorData(ElementType.UINT8, shape, bytes.clone());
  }

  /** A copy of an ONNX Runtime tensor on the CPU. */
  static TensorData of(OnnxTensor tensor) {
    ElementType type =
        switch (tensor.getInfo().type) {
          case FLOAT -> ElementType.FLOAT;
          case FLOAT16 -> ElementType.FLOAT16;
          case BFLOAT16 -> ElementType.BFLOAT16;
          default -> throw new IllegalArgumentException("no type for " + tensor.getInfo());
        };
    ByteBuffer source = tensor.getByteBuffer();
    byte[] bytes = new byte[source.remaining()];
    source.get(bytes);
    return new TensorData(type, tensor.getInfo().getShape(), bytes);
  }

  ElementType type() {
    return type;
  }

  long[] shape() {
    return shape.clone();
  }

  int rank() {
    return shape.length;
  }

  /** A dimension, counted from the end when {@code axis} is negative. */
  int dimension(int axis) {
    return Math.toIntExact(shape[axis < 0 ? shape.length + axis : axis]);
  }

  int elements() {
    return Math.toIntExact(elements(shape));
  }

  byte[] bytes() {
    return bytes.clone();
  }

  /** The element at that row-major position, widened exactly. */
  double get(int index) {
    ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    return switch (type) {
      case FLOAT -> buffer.getFloat(4 * index);
      case FLOAT16 -> Float.float16ToFloat(buffer.getShort(2 * index));
      case BFLOAT16 -> Float.intBitsToFloat(buffer.getShort(2 * index) << 16);
      case UINT8 -> Byte.toUnsignedInt(bytes[index]);
      default -> throw new IllegalStateException("no decoder for " + type);
    };
  }

  double[] values() {
    double[] values = new double[elements()];
    for (int i = 0; i < values.length; i++) {
      values[i] = get(i);
    }
    return values;
  }

  /** A new ONNX Runtime tensor with these bytes; the caller closes it. */
  OnnxTensor toOnnxTensor(OrtEnvironment environment) throws OrtException {
    ByteBuffer direct = ByteBuffer.allocateDirect(bytes.length).order(ByteOrder.nativeOrder());
    direct.put(bytes).flip();
    OnnxJavaType javaType =
        switch (type) {
          case FLOAT -> OnnxJavaType.FLOAT;
          case FLOAT16 -> OnnxJavaType.FLOAT16;
          case BFLOAT16 -> OnnxJavaType.BFLOAT16;
          case UINT8 -> OnnxJavaType.UINT8;
          default -> throw new IllegalStateException("no ONNX Runtime type for " + type);
        };
    return OnnxTensor.createTensor(environment, direct, shape, javaType);
  }

  @Override
  public String toString() {
    return type + Arrays.toString(shape);
  }

  private static long elements(long[] shape) {
    return Arrays.stream(shape).reduce(1, Math::multiplyExact);
  }

  private static byte toUint8(double value) {
    if (value != Math.rint(value) || value < 0 || value > 255) {
      throw new IllegalArgumentException(value + " is not a uint8");
    }
    return (byte) (int) value;
  }

  private static short toBfloat16(float value) {
    int bits = Float.floatToRawIntBits(value);
    if (Float.isNaN(value)) {
      return (short) ((bits >>> 16) | 0x40);
    }
    int roundHalfToEven = 0x7fff + ((bits >>> 16) & 1);
    return (short) ((bits + roundHalfToEven) >>> 16);
  }
}
