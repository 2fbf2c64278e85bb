package dev.expertbank.model;

/**
 * One dimension of a declared shape: a size, a symbol such as {@code tokens}, or neither.
 *
 * @param size -1 when it is not fixed
 * @param symbol empty when the dimension has a size or no name
 */
public record Dimension(long size, String symbol) {
  public static Dimension of(long size) {
    return new Dimension(size, "");
  }

  public static Dimension symbolic(String symbol) {
    return new Dimension(-1, symbol);
  }

  public static Dimension unknown() {
    return new Dimension(-1, "");
  }

  public boolean isFixed() {
    return size >= 0;
  }

  /** The size, the symbol, or {@code ?}. */
  @Override
  public String toString() {
    return isFixed() ? Long.toString(size) : symbol.isEmpty() ? "?" : symbol;
  }
}
