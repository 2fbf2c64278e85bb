package dev.expertbank.qmoe.device.host;

import dev.expertbank.memory.HostMemory;
import dev.expertbank.memory.Tier;
import dev.expertbank.qmoe.device.CopyPiece;
import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.FaultPlan.Operation;
import dev.expertbank.qmoe.device.LayerExperts;
import dev.expertbank.qmoe.device.PrefillStream;
import dev.expertbank.qmoe.device.QMoeKernel;
import dev.expertbank.qmoe.device.RouteCounters;
import dev.expertbank.qmoe.device.RouteSink;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.qmoe.device.SlotCopy;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.KernelContext.Tensor;
import dev.expertbank.spi.MemoryDevice;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.QMoeTensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The CPU. Keeps the workspaces of ended runs for later ones: after warm-up a run allocates none.
 * The number kept is the largest number of runs that were in flight at once.
 */
public final class HostDevice implements Device {
  /** What {@code auto} leaves to everyone else on the machine. */
  private static final long RESERVE_BYTES = 1L << 30;

  private static final System.Logger LOG = System.getLogger(HostDevice.class.getName());

  private final FaultPlan faults;
  private final HostCopies copies;
  private final Arena memory = Arena.ofShared();
  private final Deque<HostRun> free = new ArrayDeque<>();
  private volatile @Nullable HostRouteCounters routeCounters;
  private volatile @Nullable HostPrefillStream prefillStream;
  private volatile @Nullable RouteSink routeSink;
  private boolean closed;

  public HostDevice() {
    this(FaultPlan.none());
  }

  /** A device of which an operation fails. */
  public HostDevice(FaultPlan faults) {
    this.faults = faults;
    copies = new HostCopies(faults);
    LOG.log(System.Logger.Level.DEBUG, () -> "host kernels: " + HostKernels.tier());
  }

  @Override
  public String name() {
    return "host";
  }

  @Override
  public Tier tier() {
    return Tier.HOST;
  }

  @Override
  public Optional<QMoeReading.Unsupported> unsupported(QMoeSpec spec) {
    return switch (spec.layout()) {
      case PLAIN -> Optional.empty();
      case SM80 ->
          Optional.of(
              new QMoeReading.Unsupported(
                  "qmoe.layout",
                  "the weights are in the byte layout of ONNX Runtime's CUDA provider"
                      + " (weights_prepacked is 1, or it is absent or -1 and the option"
                      + " routing.semantics is ort-cuda), which only a CUDA device reads; set"
                      + " weights_prepacked=0 if the weights are plain rows, else re-export the"
                      + " model with weights_prepacked=0"));
    };
  }

  @Override
  public MemoryDevice tensorMemory() {
    return MemoryDevice.HOST;
  }

  @Override
  public void copy(Tensor from, Tensor to, long gpuStream) {
    throw new IllegalStateException("there is no GPU to copy to or from");
  }

  @Override
  public MemorySegment hostMemory(long bytes) {
    return memory.allocate(bytes, 64);
  }

  @Override
  public InPlace openInPlace(MemorySegment home) {
    return new InPlace(home.address(), home.byteSize(), "");
  }

  @Override
  public int alignment(QMoeTensor tensor) {
    return 1;
  }

  @Override
  public QMoeKernel prepare(QMoeSpec spec, LayerExperts experts, int layer) {
    return new HostQMoeKernel(this, spec, experts, layer);
  }

  @Override
  public boolean opensInPlaceSlowly() {
    return false;
  }

  @Override
  public boolean gainsByPrefillStreams() {
    return false;
  }

  @Override
  public PrefillStream openPrefillStream(long slotBytes) {
    HostPrefillStream stream = new HostPrefillStream(this, slotBytes);
    prefillStream = stream;
    return stream;
  }

  void prefillStreamReleased() {
    prefillStream = null;
  }

  @Nullable HostPrefillStream prefillStream() {
    return prefillStream;
  }

  @Override
  public long slotGranularity() {
    return HostKernels.pageBytes();
  }

  @Override
  public FreeMemory freeMemory() {
    HostMemory.Free now = new HostMemory().free();
    return new FreeMemory(now.bytes(), RESERVE_BYTES, now.source());
  }

  @Override
  public Slot commitSlot(long bytes) {
    long address = faults.fails(Operation.COMMIT_SLOT) ? 0 : HostKernels.commitSlot(bytes);
    if (address == 0) {
      throw new EpException("device.memory", "the system has no " + bytes + " bytes for a slot");
    }
    return new Slot(address, bytes);
  }

  @Override
  public void releaseSlot(Slot slot) {
    if (faults.fails(Operation.RELEASE_SLOT)
        || !HostKernels.releaseSlot(slot.address(), slot.bytes())) {
      throw new EpException("device.memory", "a slot could not be given back to the system");
    }
  }

  @Override
  public SlotCopy startCopy(Slot slot, List<CopyPiece> pieces) {
    return copies.start(slot, pieces);
  }

  @Override
  public void runsEnded() {
    // A run computes before it returns.
  }

  @Override
  public void awaitRuns() {
    // A run has ended when it returns.
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
    HostRouteCounters counters = new HostRouteCounters(experts, faults);
    routeCounters = counters;
    return counters;
  }

  @Override
  public void recordRoutes(RouteSink sink) {
    routeSink = sink;
  }

  @Nullable RouteSink routeSink() {
    return routeSink;
  }

  @Nullable HostRouteCounters routeCounters() {
    return routeCounters;
  }

  /** A run with a workspace of at least that size; give it back with {@link #release}. */
  HostRun acquire(long workspaceBytes) {
    HostRun run;
    synchronized (free) {
      run = free.pollLast();
    }
    if (run != null && run.workspaceBytes() >= workspaceBytes) {
      return run;
    }
    if (run != null) {
      run.close();
    }
    return new HostRun(workspaceBytes);
  }

  void release(HostRun run) {
    synchronized (free) {
      if (!closed) {
        free.addLast(run);
        return;
      }
    }
    run.close();
  }

  @Override
  public void close() {
    copies.finish();
    synchronized (free) {
      closed = true;
      free.forEach(HostRun::close);
      free.clear();
    }
    HostRouteCounters counters = routeCounters;
    if (counters != null) {
      counters.close();
    }
    memory.close();
  }
}
