package dev.expertbank.state;

import java.util.ArrayList;
import java.util.List;

/** Hands out addresses and can be told which call fails. */
final class FakeDevice implements StateBuffers {
  private final Runnable beforeAllocating;
  private final List<Buffer> live = new ArrayList<>();
  private int allocations;
  private long nextAddress = 4096;

  /** The call of {@link #allocate} that fails, counted from 1; never if 0. */
  int failingAllocation;

  /** Whether freeing fails. */
  boolean failingFree;

  FakeDevice() {
    this(() -> {});
  }

  FakeDevice(Runnable beforeAllocating) {
    this.beforeAllocating = beforeAllocating;
  }

  synchronized long liveBytes() {
    return live.stream().mapToLong(Buffer::bytes).sum();
  }

  synchronized int allocations() {
    return allocations;
  }

  @Override
  public StateBuffer allocate(long bytes) {
    beforeAllocating.run();
    synchronized (this) {
      if (++allocations == failingAllocation) {
        throw new IllegalStateException("out of device memory, on purpose");
      }
      Buffer buffer = new Buffer(nextAddress, bytes);
      nextAddress += bytes;
      live.add(buffer);
      return buffer;
    }
  }

  private final class Buffer implements StateBuffer {
    private final long address;
    private final long bytes;

    Buffer(long address, long bytes) {
      this.address = address;
      this.bytes = bytes;
    }

    @Override
    public long address() {
      return address;
    }

    @Override
    public long bytes() {
      return bytes;
    }

    @Override
    public void close() {
      synchronized (FakeDevice.this) {
        if (failingFree) {
          throw new IllegalStateException("the device is lost, on purpose");
        }
        if (!live.remove(this)) {
          throw new AssertionError("freed twice");
        }
      }
    }
  }
}
