package dev.expertbank.ort;

import dev.expertbank.spi.BoundaryOutcome;
import dev.expertbank.spi.RunBoundary;
import java.util.HashSet;
import java.util.Set;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Knows which top-level runs of a session are in flight, and calls the provider's boundary when the
 * last of them has ended. A run that begins meanwhile waits for the boundary, so nothing that a
 * boundary publishes changes inside a run.
 *
 * <p>ONNX Runtime has no run number, and it skips the end of a run that it leaves by a C++
 * exception. It does call start and end on one thread, so the thread is the run's identity: a start
 * on a thread that is still listed tells that its earlier run is over.
 */
final class RunGate {
  private static final System.Logger LOG = System.getLogger(RunGate.class.getName());

  private final Function<RunBoundary, BoundaryOutcome> boundary;
  private final Set<Thread> inFlight = new HashSet<>();
  private int completedRuns;
  private long boundaries;
  private @Nullable BoundaryOutcome lastOutcome;

  RunGate(Function<RunBoundary, BoundaryOutcome> boundary) {
    this.boundary = boundary;
  }

  synchronized void runStarted() {
    forgetDeadThreads();
    if (!inFlight.add(Thread.currentThread())) {
      inFlight.remove(Thread.currentThread());
      completedRuns++;
      consumeIfIdle();
      inFlight.add(Thread.currentThread());
    }
  }

  synchronized void runEnded() {
    if (inFlight.remove(Thread.currentThread())) {
      completedRuns++;
    }
    forgetDeadThreads();
    consumeIfIdle();
  }

  /** Boundaries so far. */
  synchronized long boundaries() {
    return boundaries;
  }

  synchronized @Nullable BoundaryOutcome lastOutcome() {
    return lastOutcome;
  }

  private void forgetDeadThreads() {
    int before = inFlight.size();
    inFlight.removeIf(thread -> !thread.isAlive());
    completedRuns += before - inFlight.size();
  }

  private void consumeIfIdle() {
    if (!inFlight.isEmpty() || completedRuns == 0) {
      return;
    }
    RunBoundary at = new RunBoundary(boundaries, completedRuns);
    boundaries++;
    completedRuns = 0;
    try {
      lastOutcome = boundary.apply(at);
    } catch (RuntimeException | Error e) {
      // The run's outputs exist: what went wrong here must not take them from the user.
      lastOutcome = new BoundaryOutcome.Failed(e.toString());
      LOG.log(System.Logger.Level.WARNING, "the boundary after a run failed", e);
    }
  }
}
