package dev.expertbank.qmoe.device;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Memory in pages that hold nothing else, as {@link Device#openInPlace} wants it. A device
 * registers whole pages, and the driver refuses to copy what lies in registered memory only in
 * part: whatever shared a page with an expert, be it a tensor of ONNX Runtime, could not be copied
 * any more.
 */
public final class OwnPages {
  /** The page of x86-64, the one platform that JCuda has a library for. */
  public static final long PAGE_BYTES = 4096;

  private OwnPages() {}

  /** Memory that begins with a page, until the arena is closed. */
  public static MemorySegment allocate(Arena arena, long bytes) {
    long whole = Math.multiplyExact(Math.ceilDiv(bytes, PAGE_BYTES), PAGE_BYTES);
    return arena.allocate(whole, PAGE_BYTES).asSlice(0, bytes);
  }
}
