package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.natives.Native;
import dev.expertbank.qmoe.bank.AddressTable;
import dev.expertbank.qmoe.device.QMoeSpecStruct;
import dev.expertbank.spi.EpException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import java.util.List;

/**
 * {@code eb_cuda_run} with what a run needs of memory: a workspace on the device, and page-locked
 * memory for what is on the host. Reused by later runs, so that a run allocates nothing once there
 * is enough. Used by one run at a time; after it, the device may still be computing, until it
 * {@link #isFinished}. The calling thread has the context current.
 */
final class CudaRun {
  /** {@code eb_cuda_run}. */
  static final StructLayout LAYOUT =
      MemoryLayout.structLayout(
          QMoeSpecStruct.LAYOUT.withName("spec"),
          MemoryLayout.paddingLayout(4),
          ValueLayout.JAVA_LONG.withName("rows"),
          ValueLayout.JAVA_LONG.withName("input"),
          ValueLayout.JAVA_LONG.withName("router"),
          ValueLayout.JAVA_LONG.withName("router_weights"),
          ValueLayout.JAVA_LONG.withName("output"),
          ValueLayout.JAVA_LONG.withName("window_header"),
          ValueLayout.JAVA_LONG.withName("window_counts"),
          ValueLayout.JAVA_LONG.withName("selected_expert"),
          ValueLayout.JAVA_INT.withName("tokens"),
          ValueLayout.JAVA_INT.withName("first_expert"),
          ValueLayout.JAVA_INT.withName("end_expert"),
          ValueLayout.JAVA_INT.withName("step"),
          ValueLayout.JAVA_LONG.withName("slots_begin"),
          ValueLayout.JAVA_LONG.withName("slots_end"),
          ValueLayout.JAVA_INT.withName("fused_grouping"),
          ValueLayout.JAVA_INT.withName("route_blocks"),
          ValueLayout.JAVA_INT.withName("tile_columns"),
          ValueLayout.JAVA_INT.withName("max_tiles"),
          ValueLayout.JAVA_INT.withName("stages"),
          ValueLayout.JAVA_INT.withName("block_shift"),
          ValueLayout.JAVA_INT.withName("decode_chunk"),
          ValueLayout.JAVA_INT.withName("scale_stride"),
          ValueLayout.JAVA_INT.withName("zero_point_stride"),
          MemoryLayout.paddingLayout(4),
          ValueLayout.JAVA_LONG.withName("run_rows"),
          ValueLayout.JAVA_LONG.withName("route_expert"),
          ValueLayout.JAVA_LONG.withName("route_weight"),
          ValueLayout.JAVA_LONG.withName("keys"),
          ValueLayout.JAVA_LONG.withName("expert_count"),
          ValueLayout.JAVA_LONG.withName("expert_list"),
          ValueLayout.JAVA_LONG.withName("tile_count"),
          ValueLayout.JAVA_LONG.withName("token_tiles"),
          ValueLayout.JAVA_LONG.withName("x"),
          ValueLayout.JAVA_LONG.withName("inner"),
          ValueLayout.JAVA_LONG.withName("y"));

  private static final long ROWS = offset("rows");
  private static final long INPUT = offset("input");
  private static final long ROUTER = offset("router");
  private static final long ROUTER_WEIGHTS = offset("router_weights");
  private static final long OUTPUT = offset("output");
  private static final long WINDOW_HEADER = offset("window_header");
  private static final long WINDOW_COUNTS = offset("window_counts");
  private static final long SELECTED_EXPERT = offset("selected_expert");
  private static final long FIRST_EXPERT = offset("first_expert");
  private static final long END_EXPERT = offset("end_expert");
  private static final long STEP = offset("step");
  private static final long SLOTS_BEGIN = offset("slots_begin");
  private static final long SLOTS_END = offset("slots_end");
  private static final long RUN_ROWS = offset("run_rows");
  private static final long EXPERT_COUNT = offset("expert_count");

  /** No stream yet. ONNX Runtime's are never the NULL stream. */
  private static final long NONE = 0;

  /** What everything in a workspace and in page-locked memory is aligned to. */
  private static final long ALIGNMENT = 256;

  /** Memory is taken in multiples of it, so that a few more tokens need no more of it. */
  private static final long GROWTH_BYTES = 1L << 20;

  private final CudaContext context;
  private final CudaCalls calls;
  private final Arena arena = Arena.ofShared();
  private final KernelParameters parameters;
  private final MemorySegment struct;
  private final long finished;
  private long ownStream = NONE;
  private long stream = NONE;

  /** Whether something was launched of which nobody has asked yet whether it has been done. */
  private volatile boolean unrecorded;

  /** Whether {@link #finished} was recorded and may not have happened yet. */
  private volatile boolean pending;

  /** How often {@link #begin} was called. */
  private long begun;

  /** Set for good once launches have been captured: a graph uses the workspace from then on. */
  private boolean captured;

  private long workspace;
  private long workspaceBytes;
  private long workspaceUsed;
  private MemorySegment staging = MemorySegment.NULL;
  private long stagingUsed;

  /** Whether the device may still read or write the page-locked memory. */
  private boolean stagingInUse;

  CudaRun(CudaContext context) {
    this.context = context;
    calls = context.calls();
    parameters = new KernelParameters(arena, LAYOUT, context.info().kernelsMayOverlap());
    struct = parameters.struct();
    try (var _ = context.makeCurrentRelaxed()) {
      finished = calls.createEvent();
    }
  }

  /** What that many bytes take in {@link #stage}. */
  static long stagedBytes(long bytes) {
    return roundUp(bytes, ALIGNMENT);
  }

  /** Whether everything has been done that was launched, as far as that is recorded. */
  boolean isFinished() {
    if (pending && calls.hasHappened(finished)) {
      pending = false;
    }
    return !pending;
  }

  /** Whether launches in a stream of ONNX Runtime are not recorded. */
  boolean isUnrecorded() {
    return unrecorded && stream != ownStream;
  }

  long stream() {
    return stream;
  }

  /** Tells whether it has been used since it was asked before. */
  long begun() {
    return begun;
  }

  boolean isCaptured() {
    return captured;
  }

  /** Goes on in a stream, after what is still being computed in another. */
  void moveTo(long next) {
    if (stream != next && stream != NONE) {
      recordFinished();
      holdUp(next);
    }
    stream = next;
  }

  /** The same for a stream of its own. */
  void moveToOwnStream() {
    if (ownStream == NONE) {
      ownStream = calls.createStream();
    }
    moveTo(ownStream);
  }

  /**
   * From now on, what is launched becomes part of a graph.
   *
   * @param capturing where; what was launched in another stream has been done
   */
  void captureOn(long capturing) {
    stream = capturing;
    captured = true;
  }

  /**
   * Makes {@link #isFinished} tell of everything that was launched. Not done after each run: an
   * event between two nodes keeps the kernels of the second from starting while the first still
   * ends, which costs 3 of 43 microseconds. The stream is alive.
   *
   * <p>Where ONNX Runtime has copied an output to the host, the stream is idle by now; to ask takes
   * a quarter of the time of an event, which would have to be asked again.
   */
  void recordFinished() {
    if (unrecorded) {
      if (calls.isStreamDone(stream)) {
        pending = false;
        unrecorded = false;
      } else {
        recordUnfinished();
      }
    }
  }

  /** The same where the stream cannot be idle yet: it does not ask. */
  void recordUnfinished() {
    pending = true;
    calls.recordEvent(finished, stream);
    unrecorded = false;
  }

  /** Makes a stream wait for everything that was launched, as far as that is recorded. */
  void holdUp(long other) {
    if (!isFinished()) {
      calls.streamWaitsFor(other, finished);
    }
  }

  /** Waits for everything that has been launched. */
  void synchronize() {
    calls.synchronizeStream(stream);
    stagingInUse = false;
  }

  /**
   * Makes it a run of a plan, for all experts, in which nothing is recorded.
   *
   * @param inputBytes of the device's memory for {@link #copyToDevice}
   * @param stagingBytes of page-locked memory for {@link #stage}
   * @throws EpException {@code device.memory} if there is not enough
   */
  void begin(CudaPlan plan, int experts, long inputBytes, long stagingBytes) {
    long planBytes = roundUp(plan.workspaceBytes(), ALIGNMENT);
    reserveWorkspace(planBytes + inputBytes);
    workspaceUsed = planBytes;
    stagingUsed = 0;
    if (stagingBytes > 0) {
      reserveStaging(stagingBytes);
    }
    unrecorded = !captured;
    begun++;
    struct.copyFrom(plan.run());
    CudaPlanner.place(plan.struct(), workspace, struct);
    setExperts(0, experts);
  }

  private void reserveWorkspace(long bytes) {
    if (bytes <= workspaceBytes) {
      return;
    }
    requireNoCapture("a run with as many tokens has to come before it");
    CudaMemoryCalls memory = context.memory();
    try (var _ = context.makeCurrentRelaxed()) {
      freeWorkspace();
      long wanted = roundUp(bytes, GROWTH_BYTES);
      workspace = memory.allocate(wanted);
      workspaceBytes = wanted;
      calls.setBytes(workspace, (byte) 0, wanted, stream);
    } catch (CudaException e) {
      throw noMemory(bytes, "its own memory for the workspace of a run", e);
    }
  }

  private void freeWorkspace() {
    if (workspaceBytes > 0) {
      workspaceBytes = 0;
      context.memory().free(workspace);
    }
  }

  private void reserveStaging(long bytes) {
    requireNoCapture("tensors have to be on the GPU, and routes cannot be recorded");
    if (stagingInUse) {
      synchronize();
    }
    if (bytes <= staging.byteSize()) {
      return;
    }
    try (var _ = context.makeCurrentRelaxed()) {
      freeStaging();
      long wanted = roundUp(bytes, GROWTH_BYTES);
      staging = Native.view(context.memory().allocateHost(wanted), wanted);
    } catch (CudaException e) {
      throw noMemory(bytes, "page-locked memory for a run", e);
    }
  }

  private void freeStaging() {
    if (staging.byteSize() > 0) {
      long address = staging.address();
      staging = MemorySegment.NULL;
      context.memory().freeHost(address);
    }
  }

  private EpException noMemory(long bytes, String what, CudaException cause) {
    return new EpException(
        "device.memory",
        context.info().label()
            + " has no "
            + bytes
            + " bytes of "
            + what
            + ": "
            + cause.getMessage()
            + "; lower memory.budget, or compute fewer tokens in a run",
        cause);
  }

  /**
   * Refuses what a graph cannot repeat.
   *
   * @param instead what a capture needs
   * @throws EpException {@code device.capture}
   */
  void requireNoCapture(String instead) {
    if (captured) {
      throw new EpException(
          "device.capture",
          "this run cannot be captured into a graph on " + context.info().label() + ": " + instead);
    }
  }

  /** Some page-locked memory, until the next {@link #begin}. */
  MemorySegment stage(long bytes) {
    stagingInUse |= bytes > 0;
    MemorySegment slice = staging.asSlice(stagingUsed, bytes);
    stagingUsed += stagedBytes(bytes);
    return slice;
  }

  /**
   * Starts to copy staged memory to the device.
   *
   * @return where it will be
   */
  long copyToDevice(MemorySegment staged) {
    long target = workspace + workspaceUsed;
    calls.copyToDevice(target, staged.address(), staged.byteSize(), stream);
    workspaceUsed += stagedBytes(staged.byteSize());
    return target;
  }

  /** Where the tensors are, and the rows of the table. */
  void setAddresses(long rows, long input, long router, long routerWeights, long output) {
    struct.set(ValueLayout.JAVA_LONG, ROWS, rows);
    struct.set(ValueLayout.JAVA_LONG, INPUT, input);
    struct.set(ValueLayout.JAVA_LONG, ROUTER, router);
    struct.set(ValueLayout.JAVA_LONG, ROUTER_WEIGHTS, routerWeights);
    struct.set(ValueLayout.JAVA_LONG, OUTPUT, output);
  }

  /** Which addresses are slots; weights elsewhere are read over the bus. */
  void setSlots(long begin, long end) {
    struct.set(ValueLayout.JAVA_LONG, SLOTS_BEGIN, begin);
    struct.set(ValueLayout.JAVA_LONG, SLOTS_END, end);
  }

  /** Where this run's routes are counted; a header of 0 counts nothing. */
  void setWindow(long header, long counts) {
    struct.set(ValueLayout.JAVA_LONG, WINDOW_HEADER, header);
    struct.set(ValueLayout.JAVA_LONG, WINDOW_COUNTS, counts);
  }

  /** Where the selected experts of each row of this run go. */
  void setSelected(long selected) {
    struct.set(ValueLayout.JAVA_LONG, SELECTED_EXPERT, selected);
  }

  /** Makes the next launches of {@code compute} take the experts in [first, end). */
  void setExperts(int first, int end) {
    struct.set(ValueLayout.JAVA_INT, FIRST_EXPERT, first);
    struct.set(ValueLayout.JAVA_INT, END_EXPERT, end);
  }

  void launch(List<CudaPlan.Launch> launches) {
    for (CudaPlan.Launch launch : launches) {
      launch(launch);
    }
  }

  void launch(CudaPlan.Launch launch) {
    struct.set(ValueLayout.JAVA_INT, STEP, launch.step());
    calls.launch(launch.function(), launch.shape(), stream, parameters);
  }

  /**
   * Waits until the run has routed its tokens.
   *
   * @param counts where the number of routes of every expert goes
   */
  void readExpertCounts(MemorySegment counts) {
    calls.copyToHost(
        counts.address(),
        struct.get(ValueLayout.JAVA_LONG, EXPERT_COUNT),
        counts.byteSize(),
        stream);
    calls.synchronizeStream(stream);
  }

  /**
   * Replaces an expert's row for what is launched from now on.
   *
   * @param row staged
   */
  void replaceRow(int expert, MemorySegment row) {
    calls.copyToDevice(
        struct.get(ValueLayout.JAVA_LONG, RUN_ROWS) + expert * AddressTable.ROW_BYTES,
        row.address(),
        AddressTable.ROW_BYTES,
        stream);
  }

  /** Gives everything back; the device computes none of it any more. */
  void close() {
    try (arena) {
      freeWorkspace();
      freeStaging();
      calls.destroyEvent(finished);
      if (ownStream != NONE) {
        calls.destroyStream(ownStream);
      }
    }
  }

  private static long roundUp(long bytes, long unit) {
    return Math.ceilDiv(bytes, unit) * unit;
  }

  private static long offset(String field) {
    return LAYOUT.byteOffset(PathElement.groupElement(field));
  }
}
