package dev.expertbank.tests;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The byte layout of one expert's weight matrix in models exported for ONNX Runtime's CUDA kernels
 * (CUTLASS, SM80, mixed int4 or int8), as the closed form of the place of each element.
 *
 * @param bits 4 or 8
 * @param outputs rows of the matrix, a multiple of 4 (int4) or 2 (int8)
 * @param inputs reduction length, a multiple of 64
 */
record Sm80Layout(int bits, int outputs, int inputs) {
  private static final int TILE = 64;

  /** Where the k-permutation of a group takes its elements from. */
  private static final int[] PERMUTATION_INT4 = {
    0, 1, 8, 9, 16, 17, 24, 25, 2, 3, 10, 11, 18, 19, 26, 27, 4, 5, 12, 13, 20, 21, 28, 29, 6, 7,
    14, 15, 22, 23, 30, 31
  };

  private static final int[] PERMUTATION_INT8 = {
    0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15
  };

  private static final int[] SLOTS_INT8 = {0, 2, 1, 3};

  Sm80Layout {
    if ((bits != 4 && bits != 8) || inputs % TILE != 0) {
      throw new IllegalArgumentException("no SM80 layout for " + bits + " bits, " + inputs);
    }
  }

  /** The same weights in the plain layout: {@code [outputs, inputs]}, low bits first. */
  byte[] toPlain(byte[] swizzled) {
    byte[] plain = new byte[swizzled.length];
    for (int n = 0; n < outputs; n++) {
      for (int k = 0; k < inputs; k++) {
        setPlain(plain, n, k, (word(swizzled, n, k) >>> shift(k)) & mask());
      }
    }
    return plain;
  }

  byte[] fromPlain(byte[] plain) {
    ByteBuffer swizzled = ByteBuffer.allocate(plain.length).order(ByteOrder.LITTLE_ENDIAN);
    for (int n = 0; n < outputs; n++) {
      for (int k = 0; k < inputs; k++) {
        int offset = 4 * wordIndex(n, k);
        swizzled.putInt(offset, swizzled.getInt(offset) | (getPlain(plain, n, k) << shift(k)));
      }
    }
    return swizzled.array();
  }

  private int mask() {
    return (1 << bits) - 1;
  }

  private int getPlain(byte[] plain, int n, int k) {
    int valuesPerByte = 8 / bits;
    return (plain[(n * inputs + k) / valuesPerByte] >>> (k % valuesPerByte * bits)) & mask();
  }

  private void setPlain(byte[] plain, int n, int k, int value) {
    int valuesPerByte = 8 / bits;
    plain[(n * inputs + k) / valuesPerByte] |= (byte) (value << (k % valuesPerByte * bits));
  }

  private int word(byte[] swizzled, int n, int k) {
    return ByteBuffer.wrap(swizzled).order(ByteOrder.LITTLE_ENDIAN).getInt(4 * wordIndex(n, k));
  }

  private int wordIndex(int n, int k) {
    int perWord = 32 / bits;
    int columnsInterleaved = bits == 4 ? 4 : 2;
    int wordsPerTile = TILE / perWord;
    int wordRow = permuted(k) / perWord;
    return n / columnsInterleaved * (inputs / perWord) * columnsInterleaved
        + columnsInterleaved * wordsPerTile * (wordRow / wordsPerTile)
        + wordsPerTile * (n % columnsInterleaved)
        + wordRow % wordsPerTile;
  }

  private int shift(int k) {
    int i = permuted(k) % (32 / bits);
    int slot = bits == 8 ? SLOTS_INT8[i] : i % 2 == 0 ? i / 2 : (i - 1) / 2 + 4;
    return bits * slot;
  }

  private int permuted(int k) {
    int[] permutation = bits == 4 ? PERMUTATION_INT4 : PERMUTATION_INT8;
    int within = k % permutation.length;
    int position = 0;
    while (permutation[position] != within) {
      position++;
    }
    return k - within + position;
  }
}
