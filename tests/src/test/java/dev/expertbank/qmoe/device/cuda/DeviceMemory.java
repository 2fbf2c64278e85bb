package dev.expertbank.qmoe.device.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** What a test sees of the memory of a GPU. */
public final class DeviceMemory {
  private DeviceMemory() {}

  /** Bytes of a slot, read over a stream of its own. */
  public static byte[] read(CudaDeviceInfo info, long address, int bytes) {
    try (CudaContext context = new CudaContext(info);
        var _ = context.makeCurrent();
        Arena arena = Arena.ofConfined()) {
      CudaCalls calls = context.calls();
      MemorySegment copy = arena.allocate(bytes);
      long stream = calls.createStream();
      calls.copyToHost(copy.address(), address, bytes, stream);
      calls.synchronizeStream(stream);
      calls.destroyStream(stream);
      return copy.toArray(ValueLayout.JAVA_BYTE);
    }
  }

  /** Fills memory of a slot. */
  public static void fill(CudaDeviceInfo info, long address, long bytes, byte value) {
    try (CudaContext context = new CudaContext(info);
        var _ = context.makeCurrent()) {
      CudaCalls calls = context.calls();
      long stream = calls.createStream();
      calls.setBytes(address, value, bytes, stream);
      calls.synchronizeStream(stream);
      calls.destroyStream(stream);
    }
  }
}
