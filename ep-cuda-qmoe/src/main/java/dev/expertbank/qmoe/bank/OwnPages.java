package dev.expertbank.qmoe.bank;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Memory in pages that hold nothing else. A device registers whole pages, and the driver refuses to
 * copy what lies in registered memory only in part: whatever shared a page with an expert, be it a
 * tensor of ONNX Runtime, could not be copied any more.
 */
final class OwnPages {
  /** The page of every platform that a device registers memory on, or a multiple of it. */
  static final long PAGE_BYTES = 4096;

  private OwnPages() {}

  /** Memory that begins with a page. */
  static MemorySegment allocate(Arena arena, long bytes) {
    long whole = Math.multiplyExact(Math.ceilDiv(bytes, PAGE_BYTES), PAGE_BYTES);
    return arena.allocate(whole, PAGE_BYTES).asSlice(0, bytes);
  }
}
