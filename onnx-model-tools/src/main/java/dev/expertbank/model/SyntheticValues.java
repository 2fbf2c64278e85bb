package dev.expertbank.model;

import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.qmoe.WeightLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Draws the values of synthetic tensors.
 *
 * <p>The generator is a counter: word {@code i} of a stream is the finaliser of SplitMix64 applied
 * to {@code key + i * 0x9e3779b97f4a7c15}, where the key is that finaliser applied to the seed,
 * then to its sum with the stream's number. So any part of a tensor can be drawn on its own, and
 * the bytes do not depend on the platform or on how the tensor is cut into pieces.
 */
final class SyntheticValues {
  private static final long GOLDEN = 0x9e3779b97f4a7c15L;
  private static final double UNIT = 0x1p-53;

  private final SyntheticTensor tensor;
  private final long key;

  SyntheticValues(SyntheticTensor tensor, long seed) {
    this.tensor = tensor;
    this.key = mix(mix(seed) + tensor.stream());
  }

  /**
   * Fills the buffer from its start to its capacity.
   *
   * @param target little endian; its capacity is a multiple of 8, and of {@link
   *     Sm80Encoder#TILE_BYTES} for swizzled weights
   * @param offset of the buffer's first byte in the tensor, a multiple of the same
   */
  void fill(ByteBuffer target, long offset) {
    if (target.order() != ByteOrder.LITTLE_ENDIAN || offset % 8 != 0) {
      throw new IllegalArgumentException("values are drawn in little-endian words of 8 bytes");
    }
    switch (tensor.values()) {
      case SyntheticTensor.Values.Quantized(int bits) -> quantized(target, offset / 8, bits);
      case SyntheticTensor.Values.Swizzled(int bits, int reduction) ->
          swizzled(target, offset, bits, reduction);
      case SyntheticTensor.Values.ZeroPoints(int bits) -> zeroPoints(target, offset, bits);
      case SyntheticTensor.Values.Scales(double magnitude) -> {
        for (long i = 0, first = firstElement(offset); i < elements(target); i++) {
          long word = word(first + i);
          double size = magnitude * (0.75 + 0.5 * unit(word));
          put(target, (int) i, (word & 1) == 0 ? size : -size);
        }
      }
      case SyntheticTensor.Values.Uniform(double magnitude) -> {
        for (long i = 0, first = firstElement(offset); i < elements(target); i++) {
          put(target, (int) i, magnitude * (2 * unit(word(first + i)) - 1));
        }
      }
    }
  }

  /**
   * Uniform weights in which the lowest value is replaced by the middle of the range: then they are
   * symmetric around it, and their mean adds nothing to the output.
   */
  private void quantized(ByteBuffer target, long firstWord, int bits) {
    for (int at = 0; at < target.capacity(); at += Long.BYTES) {
      target.putLong(at, quantizedWord(firstWord + at / Long.BYTES, bits));
    }
  }

  private long quantizedWord(long index, int bits) {
    long lowest =
        switch (bits) {
          case 2 -> 0x5555555555555555L;
          case 4 -> 0x1111111111111111L;
          default -> 0x0101010101010101L;
        };
    long word = word(index);
    long any = word;
    for (int shift = bits / 2; shift > 0; shift /= 2) {
      any |= any >>> shift;
    }
    return word | ((~any & lowest) << (bits - 1));
  }

  /** Tile by tile: draws the parts of the rows that are in it, wherever they are in the tensor. */
  private void swizzled(ByteBuffer target, long offset, int bits, int reduction) {
    int rows = Sm80Encoder.rows(bits);
    int segmentWords = Sm80Encoder.TILE_BYTES / rows / Long.BYTES;
    long tilesPerRow = reduction / WeightLayout.SM80_TILE;
    byte[] plain = new byte[Sm80Encoder.TILE_BYTES];
    byte[] tile = new byte[Sm80Encoder.TILE_BYTES];
    ByteBuffer words = ByteBuffer.wrap(plain).order(ByteOrder.LITTLE_ENDIAN);
    for (int at = 0; at < target.capacity(); at += Sm80Encoder.TILE_BYTES) {
      long number = (offset + at) / Sm80Encoder.TILE_BYTES;
      long firstRow = number / tilesPerRow * rows;
      long column = number % tilesPerRow;
      words.clear();
      for (long row = firstRow; row < firstRow + rows; row++) {
        long firstWord = (row * tilesPerRow + column) * segmentWords;
        for (int word = 0; word < segmentWords; word++) {
          words.putLong(quantizedWord(firstWord + word, bits));
        }
      }
      Sm80Encoder.encodeTile(bits, plain, tile, 0);
      target.put(at, tile);
    }
  }

  private void zeroPoints(ByteBuffer target, long firstByte, int bits) {
    int middle = 1 << (bits - 1);
    int spread = Math.max(1, middle / 4);
    for (int at = 0; at < target.capacity(); at++) {
      long word = word(firstByte + at);
      int packed = 0;
      for (int shift = 0; shift < 8; shift += bits) {
        int value =
            middle - spread + (int) (((word >>> (8 * (shift / bits))) & 0xff) % (2 * spread + 1));
        packed |= value << shift;
      }
      target.put(at, (byte) packed);
    }
  }

  private int elementBytes() {
    return tensor.type().bits() / 8;
  }

  private long firstElement(long offset) {
    return offset / elementBytes();
  }

  private long elements(ByteBuffer target) {
    return target.capacity() / elementBytes();
  }

  private void put(ByteBuffer target, int index, double value) {
    if (tensor.type() == ElementType.FLOAT) {
      target.putFloat(index * Float.BYTES, (float) value);
    } else if (tensor.type() == ElementType.FLOAT16) {
      target.putShort(index * Short.BYTES, Float.floatToFloat16((float) value));
    } else {
      target.putShort(index * Short.BYTES, bfloat16((float) value));
    }
  }

  /** Rounds a finite number to the nearest bfloat16, ties to even. */
  static short bfloat16(float value) {
    int bits = Float.floatToRawIntBits(value);
    return (short) ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16);
  }

  private long word(long index) {
    return mix(key + index * GOLDEN);
  }

  private static double unit(long word) {
    return (word >>> 11) * UNIT;
  }

  private static long mix(long z) {
    long a = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
    long b = (a ^ (a >>> 27)) * 0x94d049bb133111ebL;
    return b ^ (b >>> 31);
  }
}
