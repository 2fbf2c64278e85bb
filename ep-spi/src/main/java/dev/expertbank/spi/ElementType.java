package dev.expertbank.spi;

/** ONNX tensor element types, by their number in {@code TensorProto.DataType}. */
public enum ElementType {
  UNDEFINED(0, 0),
  FLOAT(1, 32),
  UINT8(2, 8),
  INT8(3, 8),
  UINT16(4, 16),
  INT16(5, 16),
  INT32(6, 32),
  INT64(7, 64),
  STRING(8, 0),
  BOOL(9, 8),
  FLOAT16(10, 16),
  DOUBLE(11, 64),
  UINT32(12, 32),
  UINT64(13, 64),
  COMPLEX64(14, 64),
  COMPLEX128(15, 128),
  BFLOAT16(16, 16),
  FLOAT8E4M3FN(17, 8),
  FLOAT8E4M3FNUZ(18, 8),
  FLOAT8E5M2(19, 8),
  FLOAT8E5M2FNUZ(20, 8),
  UINT4(21, 4),
  INT4(22, 4),
  FLOAT4E2M1(23, 4),
  UINT2(24, 2),
  INT2(25, 2),
  FLOAT8E8M0(26, 8);

  private static final ElementType[] BY_CODE = values();

  private final int code;
  private final int bits;

  ElementType(int code, int bits) {
    this.code = code;
    this.bits = bits;
  }

  /** The number in {@code TensorProto.DataType} and in ONNX Runtime's enum. */
  public int code() {
    return code;
  }

  /** Bits of one element; 0 where elements have no fixed size. */
  public int bits() {
    return bits;
  }

  /**
   * Bytes of {@code elements} elements, packed; a last byte that is only partly used counts whole.
   *
   * @throws ArithmeticException if the size does not fit a {@code long}
   */
  public long bytes(long elements) {
    return Math.ceilDiv(Math.multiplyExact(elements, (long) bits), 8L);
  }

  /** The type with that number; {@link #UNDEFINED} for one that this version does not know. */
  public static ElementType ofCode(int code) {
    return code >= 0 && code < BY_CODE.length ? BY_CODE[code] : UNDEFINED;
  }
}
