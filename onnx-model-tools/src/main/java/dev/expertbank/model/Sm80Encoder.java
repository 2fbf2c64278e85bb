package dev.expertbank.model;

import dev.expertbank.spi.qmoe.WeightLayout;

/**
 * Puts weights of 4 or 8 bits into the byte layout {@link WeightLayout#SM80}.
 *
 * <p>The rows of a matrix are taken in bands, of 4 rows (int4) or 2 (int8), and a band in tiles of
 * 64 along K. The tiles of a band follow each other, and in a tile the rows, so that a tile of
 * either width has 128 bytes. In a row of a tile, every 16 bytes of the plain row make four words
 * of 32 bits. Word j of int4 has the low halves of bytes j, j+4, j+8 and j+12 as its lower 16 bits
 * and their high halves as the upper ones; word j of int8 is bytes 2j, 2j+8, 2j+1 and 2j+9.
 */
public final class Sm80Encoder {
  static final int TILE_BYTES = 128;
  private static final int PIECE_BYTES = 16;

  private Sm80Encoder() {}

  /** Rows of a band. */
  static int rows(int bits) {
    return bits == 4 ? 4 : 2;
  }

  /**
   * Encodes a matrix, or several of equal width one after the other.
   *
   * @param bits 4 or 8
   * @param reduction K, a multiple of 64
   * @param plain rows of {@code reduction} weights, low bits first; as many rows as fill bands
   * @return as many bytes
   * @throws IllegalArgumentException if there is no such layout of weights of that shape
   */
  public static byte[] encode(int bits, int reduction, byte[] plain) {
    int rowBytes = reduction / 8 * bits;
    int bandBytes = rows(bits) * rowBytes;
    if ((bits != 4 && bits != 8)
        || reduction < 1
        || reduction % WeightLayout.SM80_TILE != 0
        || plain.length % bandBytes != 0) {
      throw new IllegalArgumentException(
          plain.length + " bytes of " + bits + " bits in rows of " + reduction);
    }
    int segment = TILE_BYTES / rows(bits);
    byte[] encoded = new byte[plain.length];
    byte[] rows = new byte[TILE_BYTES];
    for (int at = 0; at < plain.length; at += TILE_BYTES) {
      int band = at / bandBytes * bandBytes;
      int column = at % bandBytes / TILE_BYTES;
      for (int row = 0; row < rows(bits); row++) {
        int from = band + row * rowBytes + column * segment;
        System.arraycopy(plain, from, rows, row * segment, segment);
      }
      encodeTile(bits, rows, encoded, at);
    }
    return encoded;
  }

  /**
   * Encodes one tile.
   *
   * @param rows the parts of a band's rows that are in the tile, one after the other
   * @param target of {@link #TILE_BYTES} from {@code at} on
   */
  static void encodeTile(int bits, byte[] rows, byte[] target, int at) {
    for (int piece = 0; piece < TILE_BYTES; piece += PIECE_BYTES) {
      if (bits == 4) {
        encodeInt4(rows, piece, target, at + piece);
      } else {
        encodeInt8(rows, piece, target, at + piece);
      }
    }
  }

  private static void encodeInt4(byte[] plain, int from, byte[] target, int to) {
    for (int j = 0; j < 4; j++) {
      int a = plain[from + j];
      int b = plain[from + j + 4];
      int c = plain[from + j + 8];
      int d = plain[from + j + 12];
      target[to + 4 * j] = (byte) ((a & 0x0f) | (b << 4));
      target[to + 4 * j + 1] = (byte) ((c & 0x0f) | (d << 4));
      target[to + 4 * j + 2] = (byte) (((a >> 4) & 0x0f) | (b & 0xf0));
      target[to + 4 * j + 3] = (byte) (((c >> 4) & 0x0f) | (d & 0xf0));
    }
  }

  private static void encodeInt8(byte[] plain, int from, byte[] target, int to) {
    for (int j = 0; j < 4; j++) {
      target[to + 4 * j] = plain[from + 2 * j];
      target[to + 4 * j + 1] = plain[from + 2 * j + 8];
      target[to + 4 * j + 2] = plain[from + 2 * j + 1];
      target[to + 4 * j + 3] = plain[from + 2 * j + 9];
    }
  }
}
