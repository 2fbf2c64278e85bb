package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.qmoe.device.FaultPlan.Operation;
import dev.expertbank.qmoe.device.RouteCounters;
import dev.expertbank.qmoe.device.RouteRecord;
import dev.expertbank.residency.RouteWindow.Header;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The record of routes in the device's memory, with a copy of it in page-locked memory. On the
 * device counters go on from window to window, and what they were at the last {@link #reset} is
 * taken off here: so a window costs one copy instead of two, and that one is on its way while the
 * boundary does something else.
 */
final class CudaRouteCounters implements RouteCounters, AutoCloseable {
  private static final System.Logger LOG = System.getLogger(CudaRouteCounters.class.getName());

  /** The device is lost, and whoever reads will hear so. */
  private static final String UNREADABLE = "routes cannot be read";

  private final CudaContext context;
  private final CudaCalls calls;
  private final CudaRuns runs;
  private final CudaFaults faults;
  private final MemorySegment copy;
  private final long record;
  private final long stream;
  private final RouteRecord layout;
  private volatile boolean armed;

  /** Words of the header that are not counters. */
  private static final List<Header> NOT_COUNTED =
      List.of(Header.EPOCH, Header.REQUEST, Header.DEVICE, Header.OVERFLOW, Header.POISON);

  /** Whether what was reset last may not be on the device yet. */
  private volatile boolean resetting;

  /** Whether the copy of what the last runs have counted has been started. */
  private boolean copying;

  /** After which use of which run a copy has been started before the end of the runs. */
  private volatile @Nullable Early early;

  private record Early(CudaRun run, long begun) {}

  /** The record when it was read last; null if it has been reset since. */
  private int @Nullable [] latest;

  /** What the counters were, and what the header is, since the last reset. */
  private int[] base;

  /**
   * Disarmed; its content means nothing before the first {@link #reset}.
   *
   * @param runs that count
   * @param experts of each layer
   */
  CudaRouteCounters(
      CudaContext context,
      CudaHostMemory hostMemory,
      CudaRuns runs,
      CudaFaults faults,
      List<Integer> experts) {
    this.context = context;
    this.runs = runs;
    this.faults = faults;
    calls = context.calls();
    layout = new RouteRecord(experts);
    copy = hostMemory.allocate(layout.byteSize());
    base = new int[Math.toIntExact(layout.byteSize() / Integer.BYTES)];
    try (var _ = context.makeCurrentRelaxed()) {
      record = context.memory().allocate(copy.byteSize());
      try {
        stream = calls.createStream();
      } catch (CudaException e) {
        context.memory().free(record);
        throw e;
      }
    }
  }

  @Override
  public void arm() {
    armed = true;
  }

  @Override
  public void disarm() {
    armed = false;
  }

  /** The address of the header, or NULL while nothing is counted. */
  long header() {
    awaitReset();
    return armed ? record : 0;
  }

  private void awaitReset() {
    if (resetting) {
      // It was begun at the boundary before, so it is done, as a rule.
      try (var _ = context.makeCurrentRelaxed()) {
        calls.synchronizeStream(stream);
      }
      resetting = false;
    }
  }

  /** The address of a layer's counters. */
  long counts(int layer) {
    return record + layout.offset(layer);
  }

  /**
   * Starts to copy what has been counted, after the last node of a run: the device still computes,
   * so it costs nothing. The calling thread has the context current.
   */
  void startReadEarly(CudaRun run) {
    if (!armed || !runs.isAlone(run)) {
      return;
    }
    try {
      run.recordUnfinished();
      run.holdUp(stream);
      calls.copyToHost(copy.address(), record, copy.byteSize(), stream);
      early = new Early(run, run.begun());
    } catch (CudaException e) {
      LOG.log(System.Logger.Level.WARNING, UNREADABLE, e);
    }
  }

  /**
   * Ends what {@link #startReadEarly} has begun; before {@link CudaRuns#runsEnded}.
   *
   * @return whether it has got all that the runs that end now have counted
   */
  boolean takeEarlyRead() {
    Early started = early;
    early = null;
    copying =
        started != null && runs.isAlone(started.run()) && started.run().begun() == started.begun();
    return copying;
  }

  /** Starts to copy what the runs that have ended have counted, for {@link #read}. */
  void startRead() {
    if (!armed) {
      return;
    }
    try (var _ = context.makeCurrentRelaxed()) {
      if (runs.holdUp(stream)) {
        calls.copyToHost(copy.address(), record, copy.byteSize(), stream);
        copying = true;
      }
    } catch (CudaException e) {
      LOG.log(System.Logger.Level.WARNING, UNREADABLE, e);
    }
  }

  @Override
  public int[] read() {
    runs.await();
    try (var _ = context.makeCurrentRelaxed()) {
      faults.check(Operation.READ_ROUTES, CudaFunction.MEMCPY_DTOH_ASYNC, copy.address());
      if (!copying) {
        calls.copyToHost(copy.address(), record, copy.byteSize(), stream);
      }
      copying = false;
      calls.synchronizeStream(stream);
    }
    int[] words = copy.toArray(ValueLayout.JAVA_INT);
    int[] window = new int[words.length];
    for (int i = 0; i < words.length; i++) {
      window[i] = words[i] - base[i];
    }
    for (Header word : NOT_COUNTED) {
      window[word.index()] = base[word.index()];
    }
    window[Header.OVERFLOW.index()] |= words[Header.OVERFLOW.index()];
    window[Header.POISON.index()] |= words[Header.POISON.index()];
    latest = words;
    return window;
  }

  @Override
  public void reset(int[] header) {
    faults.check(Operation.RESET_ROUTES, CudaFunction.MEMCPY_HTOD_ASYNC, record);
    int[] next = latest;
    latest = null;
    if (next == null || isWorn(next)) {
      next = new int[base.length];
      clearRecord();
    }
    for (Header word : NOT_COUNTED) {
      next[word.index()] = header[word.index()];
    }
    base = next;
  }

  /** Whether something is flagged, or a counter has come half way to where it would wrap around. */
  private static boolean isWorn(int[] words) {
    boolean worn = words[Header.OVERFLOW.index()] != 0 || words[Header.POISON.index()] != 0;
    for (int word : words) {
      worn |= word < 0;
    }
    return worn;
  }

  private void clearRecord() {
    awaitReset();
    copy.fill((byte) 0);
    try (var _ = context.makeCurrentRelaxed()) {
      calls.copyToDevice(record, copy.address(), copy.byteSize(), stream);
      resetting = true;
    }
  }

  /** Nothing counts any more. */
  @Override
  public void close() {
    try (var _ = context.makeCurrentRelaxed()) {
      context.memory().free(record);
      calls.destroyStream(stream);
    }
  }
}
