package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.qmoe.device.CopyPiece;
import dev.expertbank.qmoe.device.Device.InPlace;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.qmoe.device.SlotCopy;
import dev.expertbank.qmoe.device.WeightSource;
import dev.expertbank.residency.ResidencyActions.FillEnd;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.IntFunction;

/** How fast experts are copied to a device, as promotion does it and by the driver alone. */
public final class CudaCopyRates {
  /** What promotion copies at one boundary at most, by default 256 MiB. */
  private static final int EXPERTS_PER_BOUNDARY = 18;

  private static final long LARGE_BYTES = 1L << 30;
  private static final int ROUNDS = 6;

  /** So many that the compiler of the JVM has done its work. */
  private static final int PROMOTION_ROUNDS = 80;

  private final CudaDeviceInfo info;
  private final FileChannel channel;
  private final MemorySegment mapping;
  private final List<Rate> rates = new ArrayList<>();

  private CudaCopyRates(CudaDeviceInfo info, FileChannel channel, MemorySegment mapping) {
    this.info = info;
    this.channel = channel;
    this.mapping = mapping;
  }

  /** What was copied how, and the best of some rounds, in bytes per second. */
  public record Rate(String what, double bytesPerSecond) {}

  /**
   * Where the tensors of an expert are in the file.
   *
   * @param bytes of each tensor
   * @param starts where the tensor of expert 0 begins; the others follow without a gap
   */
  public record Experts(int count, List<Long> bytes, List<Long> starts) {
    long size() {
      return bytes.stream().mapToLong(Long::longValue).sum();
    }
  }

  /**
   * Measures; the first rate is that of one large copy from page-locked memory.
   *
   * @param device its name
   * @param file in the page cache
   * @throws IllegalStateException if the device is not there or a copy failed
   */
  public static List<Rate> measure(String device, Path file, Experts experts) throws IOException {
    CudaDeviceInfo info = CudaDevices.named(device);
    try (Arena arena = Arena.ofShared();
        FileChannel channel = FileChannel.open(file)) {
      MemorySegment mapping = channel.map(MapMode.READ_ONLY, 0, channel.size(), arena);
      CudaCopyRates measured = new CudaCopyRates(info, channel, mapping);
      measured.byTheDriver(experts.size());
      measured.promotions("registered mapping", OptionalLong.empty(), experts);
      measured.promotions("staged from the file", OptionalLong.of(0), experts);
      return measured.rates;
    }
  }

  private void byTheDriver(long expertBytes) {
    try (CudaContext context = new CudaContext(info);
        var _ = context.makeCurrent()) {
      long host = context.memory().allocateHost(LARGE_BYTES);
      long target = context.memory().allocate(LARGE_BYTES);
      rates.add(
          new Rate("driver, one pinned copy of 1 GiB", pinned(context, host, target, LARGE_BYTES)));
      rates.add(
          new Rate(
              "driver, pinned copies of an expert's size",
              pinned(context, host, target, expertBytes)));
      context.memory().free(target);
      context.memory().freeHost(host);
    }
  }

  /** Copies the buffer in pieces, and times that on the device. */
  private static double pinned(CudaContext context, long host, long target, long pieceBytes) {
    CudaCalls calls = context.calls();
    long stream = calls.createStream();
    long start = calls.createTimedEvent();
    long end = calls.createTimedEvent();
    long pieces = LARGE_BYTES / pieceBytes;
    long best = Long.MAX_VALUE;
    for (int round = 0; round < ROUNDS; round++) {
      calls.recordEvent(start, stream);
      for (long i = 0; i < pieces; i++) {
        calls.copyToDevice(target + i * pieceBytes, host + i * pieceBytes, pieceBytes, stream);
      }
      calls.recordEvent(end, stream);
      calls.synchronizeEvent(end);
      best = Math.min(best, calls.elapsedNanos(start, end));
    }
    calls.destroyEvent(start);
    calls.destroyEvent(end);
    calls.destroyStream(stream);
    return pieces * pieceBytes / (best * 1e-9);
  }

  private void promotions(String source, OptionalLong pinLimit, Experts experts) {
    try (CudaDevice device = new CudaDevice(info, pinLimit, FaultPlan.none())) {
      InPlace inPlace = device.openInPlace(mapping);
      if (pinLimit.isEmpty() && inPlace.bytes() < mapping.byteSize()) {
        throw new IllegalStateException(
            "only %d of %d bytes are registered: %s"
                .formatted(inPlace.bytes(), mapping.byteSize(), inPlace.reason()));
      }
      long granularity = device.slotGranularity();
      long slotBytes = Math.ceilDiv(experts.size(), granularity) * granularity;
      List<Slot> slots = new ArrayList<>();
      for (int i = 0; i < EXPERTS_PER_BOUNDARY; i++) {
        slots.add(device.commitSlot(slotBytes));
      }
      rates.add(
          new Rate(
              "promotion, " + source + ", whole experts",
              promote(device, slots, expert -> whole(experts, expert % experts.count()))));
      check(
          slots.getFirst(),
          whole(experts, (PROMOTION_ROUNDS - 1) * slots.size() % experts.count()));
      rates.add(
          new Rate(
              "promotion, " + source + ", tensor by tensor",
              promote(device, slots, expert -> tensors(experts, expert % experts.count()))));
      slots.forEach(device::releaseSlot);
    }
  }

  /** As many bytes as an expert has, in one piece. */
  private List<CopyPiece> whole(Experts experts, int expert) {
    return List.of(new CopyPiece(source(expert * experts.size(), experts.size()), 0));
  }

  private List<CopyPiece> tensors(Experts experts, int expert) {
    List<CopyPiece> pieces = new ArrayList<>();
    long offset = 0;
    for (int i = 0; i < experts.bytes().size(); i++) {
      long bytes = experts.bytes().get(i);
      pieces.add(new CopyPiece(source(experts.starts().get(i) + expert * bytes, bytes), offset));
      offset += bytes;
    }
    return pieces;
  }

  private WeightSource source(long offset, long bytes) {
    return new WeightSource.InFile(channel, offset, mapping.asSlice(offset, bytes));
  }

  /** Promotes as one boundary does, each round other experts, and waits as the next one does. */
  private static double promote(
      CudaDevice device, List<Slot> slots, IntFunction<List<CopyPiece>> pieces) {
    double best = 0;
    int expert = 0;
    for (int round = 0; round < PROMOTION_ROUNDS; round++) {
      long bytes = 0;
      List<SlotCopy> copies = new ArrayList<>();
      long start = System.nanoTime();
      for (Slot slot : slots) {
        List<CopyPiece> of = pieces.apply(expert++);
        bytes += of.stream().mapToLong(piece -> piece.source().bytes()).sum();
        copies.add(device.startCopy(slot, of));
      }
      for (SlotCopy copy : copies) {
        FillEnd end = copy.await();
        if (end != FillEnd.COMPLETED) {
          throw new IllegalStateException("a copy ended as " + end);
        }
      }
      best = Math.max(best, bytes / ((System.nanoTime() - start) * 1e-9));
    }
    return best;
  }

  private void check(Slot slot, List<CopyPiece> pieces) {
    WeightSource.InFile source = (WeightSource.InFile) pieces.getFirst().source();
    byte[] arrived = DeviceMemory.read(info, slot.address(), (int) source.bytes());
    if (!Arrays.equals(arrived, source.mapped().toArray(ValueLayout.JAVA_BYTE))) {
      throw new IllegalStateException("what arrived is not what was copied");
    }
  }
}
