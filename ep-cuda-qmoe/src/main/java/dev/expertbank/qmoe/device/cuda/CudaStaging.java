package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.qmoe.device.FaultPlan.Operation;
import dev.expertbank.qmoe.device.WeightSource;
import dev.expertbank.spi.EpException;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * Copies memory that the device cannot read, and files, through two page-locked buffers: one is
 * filled while the other is copied from. For one thread at a time, which has the context current.
 */
final class CudaStaging {
  private static final int BUFFERS = 2;

  private final CudaCalls calls;
  private final long stream;
  private final CudaFaults faults;
  private final List<Buffer> buffers = new ArrayList<>();
  private int next;

  /**
   * A buffer.
   *
   * @param read happens when the device has read it
   */
  private record Buffer(MemorySegment memory, long read) {}

  /** The buffers are {@code hostMemory}'s. */
  CudaStaging(CudaCalls calls, CudaHostMemory hostMemory, long stream, CudaFaults faults) {
    this.calls = calls;
    this.stream = stream;
    this.faults = faults;
    try {
      for (int i = 0; i < BUFFERS; i++) {
        buffers.add(new Buffer(hostMemory.allocate(WeightSource.READ_BYTES), calls.createEvent()));
      }
    } catch (CudaException e) {
      close();
      throw e;
    }
  }

  /**
   * Copies to the device; the last pieces are still under way when the call returns.
   *
   * @throws IOException if a file cannot be read
   */
  void copy(long target, WeightSource source) throws IOException {
    for (long done = 0; done < source.bytes(); ) {
      Buffer buffer = buffers.get(next);
      next = (next + 1) % BUFFERS;
      if (!Waiting.until(() -> calls.hasHappened(buffer.read()))) {
        throw new EpException(
            "device.copy", calls.device() + " read no buffer within " + Waiting.LIMIT);
      }
      MemorySegment piece =
          buffer.memory().asSlice(0, Math.min(buffer.memory().byteSize(), source.bytes() - done));
      switch (source) {
        case WeightSource.InFile file -> file.read(done, piece);
        case WeightSource.InMemory memory ->
            piece.copyFrom(memory.memory().asSlice(done, piece.byteSize()));
      }
      faults.check(Operation.START_COPY, CudaFunction.MEMCPY_HTOD_ASYNC, target + done);
      calls.copyToDevice(target + done, piece.address(), piece.byteSize(), stream);
      calls.recordEvent(buffer.read(), stream);
      done += piece.byteSize();
    }
  }

  /** Nothing is copied any more. */
  void close() {
    buffers.forEach(buffer -> calls.destroyEvent(buffer.read()));
  }
}
