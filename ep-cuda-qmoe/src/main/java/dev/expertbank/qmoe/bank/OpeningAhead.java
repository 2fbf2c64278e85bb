package dev.expertbank.qmoe.bank;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Does on a thread of its own, in order, what whoever opens the layers of a session would do one
 * after the other. The driver takes most of that time to page-lock files; meanwhile the caller gets
 * on with the rest. Whoever needs a step does it again, and finds it done.
 *
 * <p>Steps are added and the end is told by one thread.
 */
final class OpeningAhead implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger(OpeningAhead.class.getName());

  /** Has no thread before the first step. */
  private final ExecutorService thread =
      Executors.newSingleThreadExecutor(
          Thread.ofPlatform().daemon().name("expertbank-open").factory());

  private volatile boolean ended;

  /**
   * Adds a step.
   *
   * @param step a failure ends all that follow: whoever needs the step will hear of it
   */
  void add(Runnable step) {
    thread.execute(() -> run(step));
  }

  private void run(Runnable step) {
    if (ended) {
      return;
    }
    try {
      step.run();
    } catch (RuntimeException e) {
      ended = true;
      LOG.log(System.Logger.Level.DEBUG, "opening ahead has ended", e);
    }
  }

  /** Waits for the step that is under way; no other follows. Closing twice is allowed. */
  @Override
  public void close() {
    ended = true;
    thread.shutdown();
    boolean interrupted = false;
    // Not interrupted itself: a file that a thread maps would be closed by that.
    while (!thread.isTerminated()) {
      try {
        thread.awaitTermination(1, TimeUnit.DAYS);
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
