package dev.expertbank.qmoe.bank;

import java.util.List;

/**
 * Does on a thread of its own, in order, what whoever opens the layers of a session would do one
 * after the other. The driver takes most of that time to page-lock files; meanwhile the caller gets
 * on with the rest. Whoever needs a step does it again, and finds it done.
 */
final class OpeningAhead implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger(OpeningAhead.class.getName());

  private final Thread thread;
  private volatile boolean stopped;

  /**
   * Begins.
   *
   * @param steps a failure ends it: whoever needs the step will hear of it
   */
  OpeningAhead(List<Runnable> steps) {
    thread = Thread.ofPlatform().daemon().name("expertbank-open").start(() -> run(steps));
  }

  private void run(List<Runnable> steps) {
    try {
      for (Runnable step : steps) {
        if (stopped) {
          return;
        }
        step.run();
      }
    } catch (RuntimeException e) {
      LOG.log(System.Logger.Level.DEBUG, "opening ahead has ended", e);
    }
  }

  /** Waits for the step that is under way; no other follows. Closing twice is allowed. */
  @Override
  public void close() {
    stopped = true;
    boolean interrupted = false;
    while (thread.isAlive()) {
      try {
        thread.join();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
