package dev.expertbank.residency;

/**
 * What the routing steps of all layers recorded between two boundaries: one record, read in one
 * copy.
 *
 * <p>All integers are unsigned. The arrays are those of the reader, not copies; nobody changes them
 * after the window was read.
 *
 * @param header the words of {@link Header}
 * @param counts {@code [layers][experts]}: how many rows were routed to the expert
 * @param tokens rows that the layer with the most rows has routed
 */
@SuppressWarnings("ArrayRecordComponent")
public record RouteWindow(int[] header, int[][] counts, long tokens) {

  /** The words of the header, in their order. */
  public enum Header {
    /** The number of the window, from 1 when the record is armed. */
    EPOCH(0),
    /** Whose routes these are. */
    REQUEST(1),
    /** Where they were recorded. */
    DEVICE(2),
    /** Not 0: a counter has saturated. */
    OVERFLOW(3),
    /** Not 0: an expert that does not exist was routed to. */
    POISON(4),
    /** Routes of all layers to experts that exist: rows times top k. */
    COUNT(5);

    /** Words of a header. */
    public static final int LENGTH = 6;

    private final int index;

    Header(int index) {
      this.index = index;
    }

    /** Where the word is in the header. */
    public int index() {
      return index;
    }
  }

  /** Whose windows are accepted. */
  public record Owner(int request, int device) {}

  public RouteWindow {
    if (tokens < 0) {
      throw new IllegalArgumentException(tokens + " tokens");
    }
  }

  /** A word of the header, 0 to 2^32 − 1. */
  long word(Header word) {
    return Integer.toUnsignedLong(header[word.index()]);
  }

  /** How many rows were routed to an expert. */
  public long count(int layer, int expert) {
    return Integer.toUnsignedLong(counts[layer][expert]);
  }

  /** Routes of one layer: its rows times top k. */
  long routes(int layer) {
    return routes(counts[layer]);
  }

  /** Routes of a layer with these counts. */
  public static long routes(int[] counts) {
    long sum = 0;
    for (int count : counts) {
      sum += Integer.toUnsignedLong(count);
    }
    return sum;
  }
}
