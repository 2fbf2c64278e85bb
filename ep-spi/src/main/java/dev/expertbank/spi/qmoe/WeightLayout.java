package dev.expertbank.spi.qmoe;

/**
 * How the bytes of one expert's weight matrix are arranged. The layout does not change how many
 * there are, nor that experts follow each other; scales, zero points and biases have no layout of
 * their own.
 */
public enum WeightLayout {
  /**
   * {@code [N, K]} row by row, packed along K with the low bits first. What models exported for
   * ONNX Runtime's CPU and WebGPU providers have, and those with {@code weights_prepacked=0}.
   */
  PLAIN,
  /**
   * What ONNX Runtime's CUDA provider hands to its matrix multiplication (CUTLASS, mixed input,
   * SM80), which it uses on GPUs of every generation: the weights of 4 (int4) or 2 (int8) rows
   * alternate in tiles of 64 along K, permuted inside a tile. What models exported for that
   * provider have, with {@code weights_prepacked} 1, -1 or absent. Their tensors' shape is mostly
   * the transposed one, {@code [experts, K, N/pack]}, which has no meaning beyond its size.
   */
  SM80;

  /** K is a multiple of it in {@link #SM80}. */
  public static final int SM80_TILE = 64;

  /** Blocks that share a scale have at least so many weights in {@link #SM80}. */
  public static final int SM80_MIN_BLOCK = 32;
}
