package dev.expertbank.spi.qmoe;

import dev.expertbank.spi.TensorShape;
import java.util.Optional;

/**
 * The physical shape of a tensor that holds something of every expert.
 *
 * <p>{@code [experts, rows, storage]} is taken as it is. A tensor of rank 2, {@code [experts,
 * rows]}, has one element per row: biases and scales {@code [experts, N]}, and zero points {@code
 * [experts, N/pack]}, whose rows are the packed bytes.
 *
 * @param version of this description; only {@link #VERSION} is understood
 * @param storageElementsPerRow elements as stored, so packed ones count once per byte
 * @param quantization empty for a tensor that takes no part in quantisation, such as a bias
 */
public record ExpertTensorLayout(
    int version,
    long experts,
    long rowsPerExpert,
    long storageElementsPerRow,
    ExpertStorageOrder order,
    Optional<ExpertQuantization> quantization) {
  public static final int VERSION = 1;

  /**
   * The layout of an expert-major tensor.
   *
   * @param shape static, of rank 2 or 3
   */
  public static ExpertTensorLayout expertMajor(
      TensorShape shape, Optional<ExpertQuantization> quantization) {
    if (shape.rank() != 2 && shape.rank() != 3) {
      throw new IllegalArgumentException("an expert tensor has rank 2 or 3, not " + shape);
    }
    return new ExpertTensorLayout(
        VERSION,
        shape.dim(0),
        shape.dim(1),
        shape.rank() == 3 ? shape.dim(2) : 1,
        ExpertStorageOrder.EXPERT_MAJOR,
        quantization);
  }
}
