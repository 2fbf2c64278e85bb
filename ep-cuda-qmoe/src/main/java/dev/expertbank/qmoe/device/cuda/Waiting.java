package dev.expertbank.qmoe.device.cuda;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Waits for the device by asking it, because the driver's own waiting has no end when the device
 * has stopped.
 */
final class Waiting {
  /** After that, what is waited for counts as something that may never happen. */
  static final Duration LIMIT = Duration.ofSeconds(60);

  /** A pause takes some 70 microseconds, which a run of a few milliseconds would notice. */
  private static final long SPIN_NANOS = 2_000_000;

  private static final long PAUSE_NANOS = 20_000;

  private Waiting() {}

  /** Whether it was done within the limit. An interrupt is kept for later. */
  static boolean until(BooleanSupplier done) {
    boolean interrupted = false;
    long start = System.nanoTime();
    try {
      while (!done.getAsBoolean()) {
        long waited = System.nanoTime() - start;
        if (waited > LIMIT.toNanos()) {
          return false;
        }
        if (waited < SPIN_NANOS) {
          Thread.onSpinWait();
        } else {
          LockSupport.parkNanos(PAUSE_NANOS);
        }
        interrupted |= Thread.interrupted();
      }
      return true;
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
