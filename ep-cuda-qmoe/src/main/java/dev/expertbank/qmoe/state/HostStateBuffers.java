package dev.expertbank.qmoe.state;

import dev.expertbank.state.StateBuffer;
import dev.expertbank.state.StateBuffers;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** State buffers in the memory of the host, outside the Java heap, filled with zeros. */
public final class HostStateBuffers implements StateBuffers {
  /** The width of the widest vector load of the kernels, in bytes. */
  private static final long ALIGNMENT = 64;

  @Override
  public StateBuffer allocate(long bytes) {
    return new HostStateBuffer(bytes);
  }

  /** Any thread may close it. */
  private static final class HostStateBuffer implements StateBuffer {
    private final Arena arena = Arena.ofShared();
    private final MemorySegment segment;

    HostStateBuffer(long bytes) {
      segment = arena.allocate(bytes, ALIGNMENT);
    }

    @Override
    public long address() {
      return segment.address();
    }

    @Override
    public long bytes() {
      return segment.byteSize();
    }

    @Override
    public void close() {
      arena.close();
    }
  }
}
