package dev.expertbank.ort;

import dev.expertbank.spi.BoundaryOutcome;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.RunBoundary;
import dev.expertbank.spi.SafePoints;
import java.util.HashSet;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Knows which top-level runs of a session are in flight, and calls the provider's boundary when the
 * last of them has ended, then whatever else waits for such a moment. A run that begins meanwhile
 * waits for both, so nothing that they change changes inside a run.
 *
 * <p>ONNX Runtime has no run number, and it skips the end of a run that it leaves by a C++
 * exception. It does call start and end on one thread, so the thread is the run's identity: a start
 * on a thread that is still listed tells that its earlier run is over.
 *
 * <p>A run has ended when its last node has been called; what nodes have put on a GPU's stream may
 * not be done ({@link PluginSession#onRunEnd}).
 */
final class RunGate implements SafePoints {
  private static final System.Logger LOG = System.getLogger(RunGate.class.getName());

  private final Function<RunBoundary, BoundaryOutcome> boundary;
  private final ReentrantLock lock = new ReentrantLock();
  private final Queue<Task<?>> waiting = new ConcurrentLinkedQueue<>();
  private final Set<Thread> inFlight = new HashSet<>();
  private int completedRuns;
  private long boundaries;
  private @Nullable BoundaryOutcome lastOutcome;
  private volatile boolean closed;

  /** Work for a safe point. */
  private record Task<T>(Supplier<T> action, CompletableFuture<T> result) {
    void run() {
      if (result.isDone()) {
        return;
      }
      try {
        result.complete(action.get());
      } catch (RuntimeException | Error e) {
        result.completeExceptionally(e);
      }
    }
  }

  RunGate(Function<RunBoundary, BoundaryOutcome> boundary) {
    this.boundary = boundary;
  }

  void runStarted() {
    lock.lock();
    try {
      forgetDeadThreads();
      if (!inFlight.add(Thread.currentThread())) {
        inFlight.remove(Thread.currentThread());
        completedRuns++;
        consumeIfIdle();
        inFlight.add(Thread.currentThread());
      }
    } finally {
      lock.unlock();
    }
    serveWaiting();
  }

  void runEnded() {
    lock.lock();
    try {
      if (inFlight.remove(Thread.currentThread())) {
        completedRuns++;
      }
      forgetDeadThreads();
      consumeIfIdle();
    } finally {
      lock.unlock();
    }
    serveWaiting();
  }

  @Override
  public <T> CompletableFuture<T> next(Supplier<T> action) {
    Task<T> task = new Task<>(action, new CompletableFuture<>());
    waiting.add(task);
    serveWaiting();
    if (closed) {
      refuseWaiting();
    }
    return task.result();
  }

  /** No run starts any more. Waits for what runs at a safe point now; what waits is refused. */
  void close() {
    lock.lock();
    try {
      closed = true;
    } finally {
      lock.unlock();
    }
    refuseWaiting();
  }

  private void refuseWaiting() {
    for (Task<?> task = waiting.poll(); task != null; task = waiting.poll()) {
      task.result()
          .completeExceptionally(new EpException("session.closed", "the session is closed"));
    }
  }

  /**
   * Whoever holds the lock looks for tasks after giving it up, so a task whose thread does not get
   * the lock is not forgotten.
   */
  private void serveWaiting() {
    while (!waiting.isEmpty() && !closed && lock.tryLock()) {
      try {
        forgetDeadThreads();
        if (closed || !inFlight.isEmpty()) {
          return;
        }
        consumeIfIdle();
        runWaiting();
      } finally {
        lock.unlock();
      }
    }
  }

  private void runWaiting() {
    for (Task<?> task = waiting.poll(); task != null; task = waiting.poll()) {
      task.run();
    }
  }

  /** Boundaries so far. */
  long boundaries() {
    lock.lock();
    try {
      return boundaries;
    } finally {
      lock.unlock();
    }
  }

  @Nullable BoundaryOutcome lastOutcome() {
    lock.lock();
    try {
      return lastOutcome;
    } finally {
      lock.unlock();
    }
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
    runWaiting();
  }
}
