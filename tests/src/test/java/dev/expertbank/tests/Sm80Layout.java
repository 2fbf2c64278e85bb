package dev.expertbank.tests;

import dev.expertbank.spi.AttributeValue;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * The byte layout of one expert's weight matrix in models exported for ONNX Runtime's CUDA kernels
 * (CUTLASS, SM80, mixed int4 or int8), as the closed form of the place of each element. Only reads
 * it: that it shares nothing with the encoder of the product is what makes it a check of that.
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

  /** The same node with plain weights, of the plain shape, and {@code weights_prepacked=0}. */
  static MoeNode plain(MoeNode node) {
    int bits = (int) node.integer("expert_weight_bits", 4);
    int hidden = node.required(MoeNode.INPUT).dimension(-1);
    TensorData fc2 = node.required(5);
    int inter = fc2.dimension(1) * fc2.dimension(2) * (8 / bits) / hidden;
    MoeNode plain = node.with("weights_prepacked", new AttributeValue.IntValue(0));
    for (int slot : new int[] {2, 5, 8}) {
      if (node.input(slot).isPresent()) {
        int inputs = slot == 5 ? inter : hidden;
        plain = plain.with(slot, plain(node.required(slot), bits, inputs));
      }
    }
    return plain;
  }

  private static TensorData plain(TensorData swizzled, int bits, int inputs) {
    byte[] all = swizzled.bytes();
    int experts = swizzled.dimension(0);
    int expertBytes = all.length / experts;
    var layout = new Sm80Layout(bits, expertBytes * (8 / bits) / inputs, inputs);
    byte[] plain = new byte[all.length];
    for (int from = 0; from < all.length; from += expertBytes) {
      byte[] expert = layout.toPlain(Arrays.copyOfRange(all, from, from + expertBytes));
      System.arraycopy(expert, 0, plain, from, expertBytes);
    }
    return TensorData.ofBytes(new long[] {experts, layout.outputs, inputs * bits / 8}, plain);
  }

  private int mask() {
    return (1 << bits) - 1;
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
