package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.qmoe.device.Device.InPlace;
import dev.expertbank.qmoe.device.OwnPages;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;

/**
 * How fast a kernel has read that does nothing else, in bytes per second.
 *
 * @param device memory of the device
 * @param inPlace a registered mapping of a file in the page cache, over PCIe
 */
public record CudaBandwidth(double device, double inPlace) {
  /** Not measured. */
  public static final CudaBandwidth UNKNOWN = new CudaBandwidth(Double.NaN, Double.NaN);

  /** Far more than the device's caches hold. */
  private static final long MAX_BYTES = 4L << 30;

  private static final int ROUNDS = 5;
  private static final int BLOCK_THREADS = 256;
  private static final int BLOCKS_PER_MULTIPROCESSOR = 8;

  /**
   * Reads 4 GiB of the device's memory, and as much of the file as there is.
   *
   * @param device its name
   * @param file cached, else the disk is measured
   * @throws IllegalStateException if the device or the kernel is not there, or if the file cannot
   *     be registered
   */
  public static CudaBandwidth measure(String device, Path file) throws IOException {
    try (CudaContext context = new CudaContext(CudaDevices.named(device));
        var _ = context.makeCurrent();
        Arena arena = Arena.ofShared();
        // Closed before the mapping that it has registered.
        CudaHostMemory hostMemory = new CudaHostMemory(context, OptionalLong.empty());
        FileChannel channel = FileChannel.open(file)) {
      Reader reader = new Reader(context);
      long buffer = context.memory().allocate(MAX_BYTES);
      double ofDevice = reader.bytesPerSecond(buffer, MAX_BYTES);
      context.memory().free(buffer);
      long bytes = Math.min(MAX_BYTES, channel.size()) & -OwnPages.PAGE_BYTES;
      InPlace inPlace = hostMemory.open(channel.map(MapMode.READ_ONLY, 0, bytes, arena));
      if (inPlace.bytes() < bytes) {
        throw new IllegalStateException(file + " cannot be read in place: " + inPlace.reason());
      }
      double ofFile = reader.bytesPerSecond(inPlace.address(), bytes);
      reader.close();
      return new CudaBandwidth(ofDevice, ofFile);
    }
  }

  /** Milliseconds that a token takes at least whose bytes come at these rates at the same time. */
  public double boundMillis(double deviceBytes, double inPlaceBytes) {
    return 1e3 * Math.max(deviceBytes / device, inPlaceBytes / inPlace);
  }

  /** For a report. */
  public Map<String, Object> json() {
    return Map.of("deviceBytesPerSecond", device, "inPlaceBytesPerSecond", inPlace);
  }

  @Override
  public String toString() {
    return Double.isNaN(device)
        ? "no bandwidth of a GPU to compare with"
        : String.format(
            Locale.ROOT,
            "a kernel that only reads: device memory %.2f TB/s, mapped file %.2f GB/s",
            device * 1e-12,
            inPlace * 1e-9);
  }

  /**
   * The kernel {@code eb_read_bandwidth}, which takes {@code struct { const uint4 *data; uint64_t
   * count; uint32_t *out; }}.
   */
  private static final class Reader {
    private static final StructLayout PARAMETERS =
        MemoryLayout.structLayout(
            ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG);
    private static final String RESOURCE = "/read_bandwidth.fatbin";
    private static final long LOAD_BYTES = 16;

    private final CudaContext context;
    private final CudaCalls calls;
    private final int blocks;
    private final long module;
    private final long kernel;
    private final long stream;
    private final long out;
    private final Arena arena = Arena.ofConfined();
    private final KernelParameters parameters = new KernelParameters(arena, PARAMETERS, false);

    Reader(CudaContext context) throws IOException {
      this.context = context;
      calls = context.calls();
      blocks = BLOCKS_PER_MULTIPROCESSOR * context.info().multiprocessors();
      try (InputStream in = CudaBandwidth.class.getResourceAsStream(RESOURCE)) {
        if (in == null) {
          throw new IllegalStateException(
              "no " + RESOURCE + " on the class path: it is built where nvcc is on PATH");
        }
        module = calls.loadModule(in.readAllBytes());
      }
      kernel = calls.function(module, "eb_read_bandwidth");
      stream = calls.createStream();
      out = context.memory().allocate(Integer.BYTES);
    }

    /** The best of some rounds. */
    double bytesPerSecond(long address, long bytes) {
      long start = calls.createTimedEvent();
      long end = calls.createTimedEvent();
      long best = Long.MAX_VALUE;
      for (int round = 0; round < ROUNDS; round++) {
        calls.recordEvent(start, stream);
        launch(address, bytes);
        calls.recordEvent(end, stream);
        calls.synchronizeEvent(end);
        best = Math.min(best, calls.elapsedNanos(start, end));
      }
      calls.destroyEvent(start);
      calls.destroyEvent(end);
      return bytes / (best * 1e-9);
    }

    private void launch(long address, long bytes) {
      MemorySegment struct = parameters.struct();
      long[] values = {address, bytes / LOAD_BYTES, out};
      for (int i = 0; i < values.length; i++) {
        struct.setAtIndex(ValueLayout.JAVA_LONG, i, values[i]);
      }
      calls.launch(kernel, LaunchShape.of(blocks, BLOCK_THREADS, 0), stream, parameters);
    }

    void close() {
      context.memory().free(out);
      calls.destroyStream(stream);
      calls.unloadModule(module);
      arena.close();
    }
  }
}
