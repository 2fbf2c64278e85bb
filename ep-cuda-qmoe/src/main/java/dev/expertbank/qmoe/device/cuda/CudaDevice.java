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
import dev.expertbank.spi.KernelContext;
import dev.expertbank.spi.KernelContext.Tensor;
import dev.expertbank.spi.MemoryDevice;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.QMoeTensor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/** One GPU. */
public final class CudaDevice implements Device {
  /** What {@code auto} leaves to everyone else on the device. */
  private static final long RESERVE_BYTES = 1L << 30;

  /** Kernels load packed weights 16 bytes at a time. */
  private static final int WEIGHT_ALIGNMENT = 16;

  private final CudaContext context;
  private final boolean tensorsOnDevice;
  private final CudaFaults faults;
  private final CudaHostMemory hostMemory;
  private final CudaArena arena;
  private final CudaCopies copies;
  private final CudaKernels kernels;
  private final CudaRuns runs;

  /** What {@link #close} does, the last first. */
  private final Deque<Runnable> closing = new ArrayDeque<>();

  private volatile @Nullable CudaPrefillStream prefillStream;
  private volatile int layers;
  private @Nullable CudaPrefillStream stagingSlots;
  private long stagingSlotBytes;
  private volatile @Nullable CudaRouteCounters routeCounters;
  private volatile @Nullable RouteSink routeSink;

  /**
   * Opens a device that {@link CudaProbe} has found usable, for tensors on the host.
   *
   * @param pinLimit what memory of the host may be registered, in bytes; empty for what is free now
   *     less a reserve
   * @param faults what fails, in tests
   * @throws EpException {@code device.cuda} if the device has no room or is lost
   */
  public CudaDevice(CudaDeviceInfo info, OptionalLong pinLimit, FaultPlan faults) {
    this(info, pinLimit, false, faults);
  }

  /**
   * The same, for tensors where {@code tensorsOnDevice} says: in the device's memory, and then
   * computes in ONNX Runtime's streams, or on the host.
   */
  public CudaDevice(
      CudaDeviceInfo info, OptionalLong pinLimit, boolean tensorsOnDevice, FaultPlan faults) {
    this.tensorsOnDevice = tensorsOnDevice;
    this.faults = new CudaFaults(info.label(), faults);
    try {
      context = new CudaContext(info);
      closing.push(context::close);
      arena = new CudaArena(context, faults);
      closing.push(arena::close);
      hostMemory = new CudaHostMemory(context, pinLimit);
      closing.push(hostMemory::close);
      kernels = new CudaKernels(context);
      closing.push(kernels::close);
      copies = new CudaCopies(context, hostMemory, faults);
      closing.push(copies::close);
      closing.push(this::closeStagingSlots);
      closing.push(this::closeRouteCounters);
      runs = new CudaRuns(context);
      closing.push(runs::close);
    } catch (RuntimeException | Error e) {
      close();
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
    return kernels.unsupported(spec);
  }

  @Override
  public MemoryDevice tensorMemory() {
    return tensorsOnDevice ? MemoryDevice.Gpu.cuda(context.info().number()) : MemoryDevice.HOST;
  }

  /** Whether a tensor is on the host; if not, it is on this device. */
  boolean isOnHost(Tensor tensor) {
    return switch (tensor.memory()) {
      case MemoryDevice.Host _ -> true;
      case MemoryDevice.Gpu gpu when gpu.equals(tensorMemory()) -> false;
      case MemoryDevice.Gpu gpu ->
          throw new EpException(
              "io.device",
              "ONNX Runtime gave a tensor on GPU "
                  + gpu.number()
                  + " of vendor "
                  + gpu.vendorId()
                  + " to "
                  + context.info().label()
                  + ": use one GPU for all providers or io=host");
    };
  }

  @Override
  public void copy(Tensor from, Tensor to, long gpuStream) {
    long stream = requireStream(gpuStream);
    CudaCalls calls = context.calls();
    try (var _ = context.makeCurrentRelaxed()) {
      if (calls.isCapturing(stream)) {
        throw new EpException(
            "device.capture",
            "a tensor cannot be copied between the host and "
                + context.info().label()
                + " while a graph is captured: keep every node of the model on the GPU");
      }
      long bytes = to.data().byteSize();
      if (isOnHost(from)) {
        calls.copyToDevice(to.data().address(), from.data().address(), bytes, stream);
      } else {
        calls.copyToHost(to.data().address(), from.data().address(), bytes, stream);
      }
      calls.synchronizeStream(stream);
    }
  }

  private long requireStream(long gpuStream) {
    if (gpuStream == 0) {
      throw new EpException(
          "io.device",
          "ONNX Runtime gave no stream of "
              + context.info().label()
              + ": add its CUDA provider to this session (options.addCUDA) or use io=host");
    }
    return gpuStream;
  }

  /** What every run needs on its thread. */
  CudaContext.Current makeCurrentForRuns() {
    return tensorsOnDevice ? context.makeCurrent() : context.makeCurrentRelaxed();
  }

  /** A run, for {@link CudaRuns#release}. */
  CudaRun acquireRun(KernelContext kernelContext) {
    return tensorsOnDevice
        ? runs.acquire(requireStream(kernelContext.gpuStream()))
        : runs.acquire();
  }

  /** Slots are between these addresses. */
  long slotsBegin() {
    return arena.begin();
  }

  long slotsEnd() {
    return arena.end();
  }

  CudaContext context() {
    return context;
  }

  CudaRuns runs() {
    return runs;
  }

  CudaCopies copies() {
    return copies;
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
    layers = Math.max(layers, layer + 1);
    return new CudaQMoeKernel(this, kernels.plans(spec), spec, experts, layer);
  }

  @Override
  public boolean opensInPlaceSlowly() {
    return true;
  }

  @Override
  public boolean gainsByPrefillStreams() {
    return true;
  }

  @Override
  public PrefillStream openPrefillStream(long slotBytes) {
    CudaPrefillStream stream = new CudaPrefillStream(this, slotBytes, true);
    prefillStream = stream;
    return stream;
  }

  /** The stream of {@link #openPrefillStream}. */
  @Nullable CudaPrefillStream prefillStream() {
    return prefillStream;
  }

  void prefillStreamReleased(CudaPrefillStream stream) {
    if (prefillStream == stream) {
      prefillStream = null;
    }
  }

  /** Notes that some expert of that size cannot be read in place. */
  synchronized void reserveStagingSlots(long expertBytes) {
    long granularity = arena.granularity();
    stagingSlotBytes =
        Math.max(stagingSlotBytes, Math.ceilDiv(expertBytes, granularity) * granularity);
  }

  /**
   * Slots for experts that cannot be read in place, where {@link #openPrefillStream} has opened
   * none; taken by the first run that needs them.
   *
   * @throws EpException {@code device.memory} if there is no room
   */
  synchronized CudaPrefillStream stagingSlots() {
    CudaPrefillStream slots = stagingSlots;
    if (slots == null) {
      slots = new CudaPrefillStream(this, stagingSlotBytes, false);
      stagingSlots = slots;
    }
    return slots;
  }

  private synchronized void closeStagingSlots() {
    CudaPrefillStream slots = stagingSlots;
    if (slots != null) {
      slots.release();
    }
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
  public void runsEnded() {
    CudaRouteCounters counters = routeCounters;
    boolean early = counters != null && counters.takeEarlyRead();
    runs.runsEnded();
    if (counters != null && !early) {
      counters.startRead();
    }
  }

  /** A run has launched a layer, and nobody waits for its output. */
  void launched(CudaRun run, int layer) {
    CudaRouteCounters counters = routeCounters;
    if (counters != null && layer == layers - 1 && !run.isCaptured()) {
      counters.startReadEarly(run);
    }
  }

  @Override
  public void awaitRuns() {
    runs.await();
  }

  @Override
  public boolean capturing() {
    return runs.isCapturing();
  }

  @Override
  public boolean awaitCopies() {
    return copies.finish();
  }

  @Override
  public RouteCounters openRouteCounters(List<Integer> experts) {
    CudaRouteCounters counters = new CudaRouteCounters(context, hostMemory, runs, faults, experts);
    routeCounters = counters;
    return counters;
  }

  private void closeRouteCounters() {
    CudaRouteCounters counters = routeCounters;
    if (counters != null) {
      counters.close();
    }
  }

  @Nullable CudaRouteCounters routeCounters() {
    return routeCounters;
  }

  @Override
  public void recordRoutes(RouteSink sink) {
    routeSink = sink;
  }

  @Nullable RouteSink routeSink() {
    return routeSink;
  }

  /** Closing twice is allowed. */
  @Override
  public synchronized void close() {
    RuntimeException failure = null;
    for (Runnable next = closing.poll(); next != null; next = closing.poll()) {
      try {
        next.run();
      } catch (RuntimeException e) {
        if (failure == null) {
          failure = e;
        } else {
          failure.addSuppressed(e);
        }
      }
    }
    if (failure != null) {
      throw failure;
    }
  }
}
