package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.memory.Tier;
import dev.expertbank.qmoe.device.CopyPiece;
import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.LayerExperts;
import dev.expertbank.qmoe.device.PrefillStream;
import dev.expertbank.qmoe.device.QMoeKernel;
import dev.expertbank.qmoe.device.RouteCounters;
import dev.expertbank.qmoe.device.RouteSink;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.qmoe.device.SlotCopy;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.QMoeTensor;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/** One GPU. */
public final class CudaDevice implements Device {
  /** What {@code auto} leaves to everyone else on the device. */
  private static final long RESERVE_BYTES = 1L << 30;

  /** Kernels load packed weights 16 bytes at a time. */
  private static final int WEIGHT_ALIGNMENT = 16;

  private final CudaContext context;
  private final CudaArena arena;
  private final CudaHostMemory hostMemory;
  private final CudaCopies copies;
  private boolean closed;

  /**
   * Opens a device that {@link CudaProbe} has found usable.
   *
   * @param pinLimit what memory of the host may be registered, in bytes; empty for what is free now
   *     less a reserve
   * @param faults what fails, in tests
   * @throws EpException {@code device.cuda} if the device has no room or is lost
   */
  public CudaDevice(CudaDeviceInfo info, OptionalLong pinLimit, FaultPlan faults) {
    context = new CudaContext(info);
    try {
      hostMemory = new CudaHostMemory(context, pinLimit);
      arena = new CudaArena(context, faults);
      try {
        copies = new CudaCopies(context, hostMemory, faults);
      } catch (RuntimeException | Error e) {
        arena.close();
        throw e;
      }
    } catch (RuntimeException | Error e) {
      context.close();
      throw e;
    }
  }

  @Override
  public String name() {
    return context.info().id();
  }

  @Override
  public Tier tier() {
    return Tier.DEVICE;
  }

  @Override
  public Optional<QMoeReading.Unsupported> unsupported(QMoeSpec spec) {
    return Optional.empty();
  }

  @Override
  public MemorySegment hostMemory(long bytes) {
    return hostMemory.allocate(bytes);
  }

  @Override
  public InPlace openInPlace(MemorySegment memory) {
    return hostMemory.open(memory);
  }

  @Override
  public int alignment(QMoeTensor tensor) {
    return switch (tensor.input().role()) {
      case WEIGHTS -> WEIGHT_ALIGNMENT;
      default -> Math.toIntExact(tensor.elementType().bytes(1));
    };
  }

  @Override
  public QMoeKernel prepare(QMoeSpec spec, LayerExperts experts, int layer) {
    throw new UnsupportedOperationException();
  }

  @Override
  public PrefillStream openPrefillStream(long slotBytes) {
    throw new UnsupportedOperationException();
  }

  @Override
  public long slotGranularity() {
    return arena.granularity();
  }

  @Override
  public FreeMemory freeMemory() {
    try (var _ = context.makeCurrentRelaxed()) {
      return new FreeMemory(
          context.memory().freeBytes(),
          RESERVE_BYTES,
          "the free memory that the driver reports for " + context.info().label());
    }
  }

  @Override
  public Slot commitSlot(long bytes) {
    return arena.commit(bytes);
  }

  @Override
  public void releaseSlot(Slot slot) {
    arena.release(slot);
  }

  @Override
  public SlotCopy startCopy(Slot slot, List<CopyPiece> pieces) {
    return copies.start(slot, pieces);
  }

  @Override
  public void awaitRuns() {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean capturing() {
    return false;
  }

  @Override
  public boolean awaitCopies() {
    return copies.finish();
  }

  @Override
  public RouteCounters openRouteCounters(List<Integer> experts) {
    throw new UnsupportedOperationException();
  }

  @Override
  public void recordRoutes(RouteSink sink) {
    throw new UnsupportedOperationException();
  }

  /** Closing twice is allowed. */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    try (context;
        arena;
        hostMemory;
        copies) {
      // In this order: copies, host memory, arena, context.
    }
  }
}
