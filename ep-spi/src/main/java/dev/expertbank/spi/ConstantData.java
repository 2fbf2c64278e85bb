package dev.expertbank.spi;

import java.lang.foreign.MemorySegment;

/** Where the bytes of a constant initializer are. */
public sealed interface ConstantData {
  /** Bytes as stored, packed. */
  long byteLength();

  /**
   * Bytes in a file beside the model.
   *
   * @param location the path as the model states it: untrusted, resolve it with {@link
   *     ExternalDataFile} only
   * @param offset first byte in that file
   */
  record External(String location, long offset, long byteLength) implements ConstantData {}

  /** Bytes inside the model file. */
  record Inline(long byteLength, Reader reader) implements ConstantData {}

  /** Reads inline bytes; usable only while the callback that handed the node out runs. */
  @FunctionalInterface
  interface Reader {
    /** Copies all bytes into {@code target}, whose size is the constant's byte length. */
    void readInto(MemorySegment target);
  }
}
