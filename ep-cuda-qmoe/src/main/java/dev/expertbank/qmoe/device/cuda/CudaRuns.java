package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.spi.EpException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The runs of one device: keeps those that have returned for later ones, and knows what the device
 * may still be computing. Their number is the largest that was in flight at once, and one for each
 * capture: a graph uses its workspace for as long as it lives, which nobody tells. Safe from any
 * thread that has the context current.
 *
 * <p>Streams of ONNX Runtime are only used until the end of the session's runs ({@link
 * #runsEnded}); afterwards events of our own tell what has been done in them. The exception are
 * streams on which something was captured: whoever launches the graph does so without a word to us,
 * so these are asked, and have to live as long as their session.
 */
final class CudaRuns implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger(CudaRuns.class.getName());

  private final CudaContext context;
  private final CudaCalls calls;
  private final Deque<CudaRun> free = new ArrayDeque<>();
  private final List<CudaRun> all = new ArrayList<>();
  private final Map<Capture, CudaRun> captures = new HashMap<>();
  private final Set<Long> capturedStreams = ConcurrentHashMap.newKeySet();

  /** The first run since runs have ended, and whether there were others. */
  private @Nullable CudaRun first;

  private boolean several;

  /** Launches that follow each other in one graph, and so can share a workspace. */
  private record Capture(long number, long stream) {}

  /** No runs yet; the context outlives them. */
  CudaRuns(CudaContext context) {
    this.context = context;
    calls = context.calls();
  }

  /** A run in a stream of its own, for {@link #release}. */
  CudaRun acquire() {
    CudaRun run;
    synchronized (this) {
      run = free.pollLast();
    }
    CudaRun acquired = run == null ? create() : run;
    acquired.moveToOwnStream();
    return noted(acquired);
  }

  /**
   * A run in a stream of ONNX Runtime, for {@link #release}.
   *
   * @throws EpException {@code device.capture} if the stream is being captured and no run is free
   */
  CudaRun acquire(long stream) {
    long capture = calls.captureNumber(stream);
    if (capture != CudaCalls.NO_CAPTURE) {
      return captured(new Capture(capture, stream));
    }
    CudaRun run;
    synchronized (this) {
      run = takeOf(stream);
      if (run == null) {
        run = free.pollLast();
      }
    }
    CudaRun acquired = run == null ? create() : run;
    acquired.moveTo(stream);
    return noted(acquired);
  }

  private synchronized CudaRun noted(CudaRun run) {
    if (first == null) {
      first = run;
    }
    several |= first != run;
    return run;
  }

  /** Whether nothing but that run can have been launched since runs have ended. */
  synchronized boolean isAlone(CudaRun run) {
    return first == run && !several && capturedStreams.isEmpty();
  }

  private @Nullable CudaRun takeOf(long stream) {
    for (Iterator<CudaRun> runs = free.descendingIterator(); runs.hasNext(); ) {
      CudaRun run = runs.next();
      if (run.stream() == stream) {
        runs.remove();
        return run;
      }
    }
    return null;
  }

  private CudaRun create() {
    CudaRun run = new CudaRun(context);
    synchronized (this) {
      all.add(run);
    }
    return run;
  }

  private synchronized CudaRun captured(Capture capture) {
    CudaRun run = captures.get(capture);
    if (run == null) {
      run = takeOf(capture.stream());
      if (run == null) {
        run = takeIdle();
      }
      if (run == null) {
        throw new EpException(
            "device.capture",
            "no workspace is free for a run that is being captured into a graph on "
                + context.info().label()
                + ": a run with as many tokens has to come before each capture");
      }
      run.captureOn(capture.stream());
      captures.put(capture, run);
      capturedStreams.add(capture.stream());
    }
    return run;
  }

  /** A stream that is being captured cannot wait for what is outside of the capture. */
  private @Nullable CudaRun takeIdle() {
    try (var _ = context.makeCurrentRelaxed()) {
      for (Iterator<CudaRun> runs = free.descendingIterator(); runs.hasNext(); ) {
        CudaRun run = runs.next();
        run.recordFinished();
        if (run.isFinished()) {
          runs.remove();
          return run;
        }
      }
      return null;
    }
  }

  /** Takes a run back that launches nothing more; the device may still be computing. */
  void release(CudaRun run) {
    if (!run.isCaptured()) {
      synchronized (this) {
        free.addLast(run);
      }
    }
  }

  /** No run of the session is under way, and their streams are still alive. */
  void runsEnded() {
    synchronized (this) {
      first = null;
      several = false;
    }
    try (var _ = context.makeCurrentRelaxed()) {
      launched().forEach(CudaRun::recordFinished);
    } catch (CudaException e) {
      // The device is lost, and whoever waits for anything on it will hear so.
      LOG.log(System.Logger.Level.WARNING, "the end of runs cannot be recorded", e);
    }
  }

  /** The runs that no graph uses. */
  private synchronized List<CudaRun> launched() {
    return all.stream().filter(run -> !run.isCaptured()).toList();
  }

  /**
   * Makes a stream wait for all that was launched.
   *
   * @return whether it does: of graphs, and of runs that have failed, nothing was recorded
   */
  boolean holdUp(long stream) {
    List<CudaRun> runs = launched();
    if (!capturedStreams.isEmpty() || runs.stream().anyMatch(CudaRun::isUnrecorded)) {
      return false;
    }
    for (CudaRun run : runs) {
      run.recordFinished();
      run.holdUp(stream);
    }
    return true;
  }

  /**
   * Waits for all that was launched by runs that have returned, and for graphs in the streams in
   * which they were captured, but not where a capture is open.
   *
   * @throws EpException {@code device.cuda} if it failed or does not end
   */
  void await() {
    try (var _ = context.makeCurrentRelaxed()) {
      awaitLaunches();
      await(
          () ->
              capturedStreams.stream()
                  .allMatch(stream -> calls.isCapturing(stream) || calls.isStreamDone(stream)));
    }
  }

  private void awaitLaunches() {
    List<CudaRun> runs = launched();
    if (runs.stream().anyMatch(CudaRun::isUnrecorded)) {
      awaitEverything();
    } else {
      runs.forEach(CudaRun::recordFinished);
      await(() -> runs.stream().allMatch(CudaRun::isFinished));
    }
  }

  /**
   * A run has failed, so that its end was never told, and its stream may be gone by now: all that
   * is left to wait for is the whole context, which has no limit of its own.
   */
  private void awaitEverything() {
    FutureTask<Void> everything =
        new FutureTask<>(
            () -> {
              try (var _ = context.makeCurrentRelaxed()) {
                calls.synchronizeContext();
              }
            },
            null);
    Thread.ofPlatform().daemon().name("expertbank-await").start(everything);
    await(everything::isDone);
    if (everything.state() == Future.State.FAILED) {
      Throwable failure = everything.exceptionNow();
      throw failure instanceof CudaException cuda ? cuda : new IllegalStateException(failure);
    }
  }

  private void await(BooleanSupplier done) {
    if (!Waiting.until(done)) {
      throw new EpException(
          "device.cuda",
          "runs on " + context.info().label() + " have not ended within " + Waiting.LIMIT);
    }
  }

  /** Whether a capture of launches is open. */
  boolean isCapturing() {
    if (capturedStreams.isEmpty()) {
      return false;
    }
    try (var _ = context.makeCurrent()) {
      return capturedStreams.stream().anyMatch(calls::isCapturing);
    }
  }

  /** Gives everything back. No run and no graph is in flight; waits for the device. */
  @Override
  public void close() {
    try (var _ = context.makeCurrentRelaxed()) {
      awaitLaunches();
      synchronized (this) {
        all.forEach(CudaRun::close);
        all.clear();
        free.clear();
        captures.clear();
      }
    }
  }
}
