package dev.expertbank.spi;

import java.util.Arrays;
import java.util.stream.Collectors;

/** An immutable tensor shape; a dimension that is only known at run time is {@link #DYNAMIC}. */
public final class TensorShape {
  public static final long DYNAMIC = -1;

  private final long[] dims;

  private TensorShape(long[] dims) {
    this.dims = dims;
  }

  /** Any negative dimension is taken as {@link #DYNAMIC}. */
  public static TensorShape of(long... dims) {
    return new TensorShape(Arrays.stream(dims).map(d -> Math.max(d, DYNAMIC)).toArray());
  }

  public int rank() {
    return dims.length;
  }

  public long dim(int axis) {
    return dims[axis];
  }

  public long lastDim() {
    return dims[dims.length - 1];
  }

  public boolean isStatic() {
    return Arrays.stream(dims).allMatch(d -> d >= 0);
  }

  /**
   * The product of all dimensions, which must be static.
   *
   * @throws ArithmeticException if a partial product overflows, even when a later dimension is 0
   */
  public long elementCount() {
    long nonZeroProduct = 1;
    boolean empty = false;
    for (long d : dims) {
      if (d < 0) {
        throw new IllegalStateException("shape " + this + " is not static");
      }
      if (d == 0) {
        empty = true;
      } else {
        nonZeroProduct = Math.multiplyExact(nonZeroProduct, d);
      }
    }
    return empty ? 0 : nonZeroProduct;
  }

  public long[] toArray() {
    return dims.clone();
  }

  @Override
  public boolean equals(Object o) {
    return o instanceof TensorShape other && Arrays.equals(dims, other.dims);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(dims);
  }

  /** For example {@code [?,2880]}. */
  @Override
  public String toString() {
    return Arrays.stream(dims)
        .mapToObj(d -> d < 0 ? "?" : Long.toString(d))
        .collect(Collectors.joining(",", "[", "]"));
  }
}
