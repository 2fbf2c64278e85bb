package dev.expertbank.qmoe.device.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;

/**
 * The one structure that a kernel takes by value, filled in before each launch, and the structures
 * through which the driver reads it. For one thread at a time: each run in flight has its own.
 */
final class KernelParameters {
  /** {@code CUlaunchConfig}. */
  private static final StructLayout CONFIG =
      MemoryLayout.structLayout(
          MemoryLayout.sequenceLayout(6, ValueLayout.JAVA_INT).withName("shape"),
          ValueLayout.JAVA_INT.withName("shared_bytes"),
          MemoryLayout.paddingLayout(4),
          ValueLayout.JAVA_LONG.withName("stream"),
          ValueLayout.JAVA_LONG.withName("attributes"),
          ValueLayout.JAVA_INT.withName("attribute_count"),
          MemoryLayout.paddingLayout(4));

  /** {@code CUlaunchAttribute}: a number, and a value of 64 bytes at offset 8. */
  private static final long ATTRIBUTE_BYTES = 72;

  private static final long ATTRIBUTE_VALUE = 8;
  private static final int PROGRAMMATIC_STREAM_SERIALIZATION = 6;

  private static final long SHARED_BYTES = offset("shared_bytes");
  private static final long STREAM = offset("stream");
  private static final long ATTRIBUTES = offset("attributes");
  private static final long ATTRIBUTE_COUNT = offset("attribute_count");

  private final MemorySegment struct;
  private final MemorySegment pointers;
  private final MemorySegment config;

  /**
   * A zeroed structure.
   *
   * @param arena owns the memory; outlives every launch
   * @param layout as the kernel declares it
   * @param overlapping whether a kernel may start while the one before it still ends, for which it
   *     waits by itself
   */
  KernelParameters(Arena arena, MemoryLayout layout, boolean overlapping) {
    struct = arena.allocate(layout);
    pointers = arena.allocate(ValueLayout.JAVA_LONG);
    pointers.set(ValueLayout.JAVA_LONG, 0, struct.address());
    config = arena.allocate(CONFIG);
    if (overlapping) {
      MemorySegment attribute = arena.allocate(ATTRIBUTE_BYTES, Long.BYTES);
      attribute.set(ValueLayout.JAVA_INT, 0, PROGRAMMATIC_STREAM_SERIALIZATION);
      attribute.set(ValueLayout.JAVA_INT, ATTRIBUTE_VALUE, 1);
      config.set(ValueLayout.JAVA_LONG, ATTRIBUTES, attribute.address());
      config.set(ValueLayout.JAVA_INT, ATTRIBUTE_COUNT, 1);
    }
  }

  /** The structure, to be filled in. */
  MemorySegment struct() {
    return struct;
  }

  /** The address of the array of pointers. */
  long pointers() {
    return pointers.address();
  }

  /** The address of {@code CUlaunchConfig}, for a launch. */
  long config(LaunchShape shape, long stream) {
    config.setAtIndex(ValueLayout.JAVA_INT, 0, shape.gridX());
    config.setAtIndex(ValueLayout.JAVA_INT, 1, shape.gridY());
    config.setAtIndex(ValueLayout.JAVA_INT, 2, shape.gridZ());
    config.setAtIndex(ValueLayout.JAVA_INT, 3, shape.blockX());
    config.setAtIndex(ValueLayout.JAVA_INT, 4, shape.blockY());
    config.setAtIndex(ValueLayout.JAVA_INT, 5, shape.blockZ());
    config.set(ValueLayout.JAVA_INT, SHARED_BYTES, shape.sharedBytes());
    config.set(ValueLayout.JAVA_LONG, STREAM, stream);
    return config.address();
  }

  private static long offset(String field) {
    return CONFIG.byteOffset(PathElement.groupElement(field));
  }
}
