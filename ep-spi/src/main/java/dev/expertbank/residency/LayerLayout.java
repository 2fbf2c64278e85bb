package dev.expertbank.residency;

import dev.expertbank.spi.qmoe.NonPageableReason;
import dev.expertbank.spi.qmoe.Pageability;
import java.util.List;

/**
 * What residency knows of one MoE layer.
 *
 * @param topK experts that a token is routed to
 * @param expertBytes what a run reads of one expert, and what its promotion copies: all its tensors
 * @param slotBytes what one resident expert takes of the budget; layers with equal slot bytes are
 *     one size class
 * @param pageability whether its experts can be moved one by one
 */
public record LayerLayout(
    int experts, int topK, long expertBytes, long slotBytes, Pageability pageability) {
  /** Where tensors begin in a slot: at multiples of these bytes. */
  public static final long TENSOR_ALIGNMENT = 64;

  public LayerLayout {
    if (experts < 1 || topK < 1 || topK > experts) {
      throw new IllegalArgumentException("top " + topK + " of " + experts + " experts");
    }
    if (expertBytes < 1 || slotBytes < expertBytes) {
      throw new IllegalArgumentException(
          "an expert of " + expertBytes + " bytes in a slot of " + slotBytes);
    }
  }

  /** A layer whose experts can be moved one by one. */
  public static LayerLayout pageable(int experts, int topK, long expertBytes, long slotBytes) {
    return new LayerLayout(experts, topK, expertBytes, slotBytes, new Pageability.Pageable());
  }

  /**
   * A layer whose slots hold all tensors of an expert, each at a multiple of {@link
   * #TENSOR_ALIGNMENT}.
   *
   * @param tensorBytes of each tensor of one expert
   * @param slotGranularity what the size of a slot is a multiple of, in bytes
   * @throws ArithmeticException if an expert has more than {@link Long#MAX_VALUE} bytes
   */
  public static LayerLayout packed(
      int experts, int topK, List<Long> tensorBytes, long slotGranularity) {
    long expertBytes = 0;
    long packedBytes = 0;
    for (long bytes : tensorBytes) {
      expertBytes = Math.addExact(expertBytes, bytes);
      packedBytes = Math.addExact(packedBytes, packedBytes(bytes));
    }
    return pageable(experts, topK, expertBytes, roundUp(packedBytes, slotGranularity));
  }

  /** What a tensor takes in a slot, with the gap behind it. */
  public static long packedBytes(long tensorBytes) {
    return roundUp(tensorBytes, TENSOR_ALIGNMENT);
  }

  private static long roundUp(long bytes, long multiple) {
    return Math.multiplyExact(Math.ceilDiv(bytes, multiple), multiple);
  }

  /** A layer that always stays where it is. */
  public static LayerLayout nonPageable(
      int experts, int topK, long expertBytes, NonPageableReason reason) {
    return new LayerLayout(
        experts, topK, expertBytes, expertBytes, new Pageability.NonPageable(reason));
  }

  public boolean isPageable() {
    return pageability instanceof Pageability.Pageable;
  }

  /** Bytes that a hit saves, for each byte of the budget that it takes. */
  public double bytesSavedPerSlotByte() {
    return (double) expertBytes / slotBytes;
  }
}
