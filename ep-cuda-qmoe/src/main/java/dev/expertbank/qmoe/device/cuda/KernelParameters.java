package dev.expertbank.qmoe.device.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * The one structure that a kernel takes by value, filled in before each launch, and the array of
 * pointers through which the driver reads it. For one thread at a time: each run in flight has its
 * own.
 */
final class KernelParameters {
  private final MemorySegment struct;
  private final MemorySegment pointers;

  /**
   * A zeroed structure.
   *
   * @param arena owns the memory; outlives every launch
   * @param layout as the kernel declares it
   */
  KernelParameters(Arena arena, MemoryLayout layout) {
    struct = arena.allocate(layout);
    pointers = arena.allocate(ValueLayout.JAVA_LONG);
    pointers.set(ValueLayout.JAVA_LONG, 0, struct.address());
  }

  /** The structure, to be filled in. */
  MemorySegment struct() {
    return struct;
  }

  /** The address of the array. */
  long pointers() {
    return pointers.address();
  }
}
