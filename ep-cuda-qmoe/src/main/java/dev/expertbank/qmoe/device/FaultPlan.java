package dev.expertbank.qmoe.device;

import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/** Makes one call of one operation of a device fail, in tests. Safe from any thread. */
public final class FaultPlan {
  /** What can fail. */
  public enum Operation {
    COMMIT_SLOT,
    RELEASE_SLOT,
    /** Submitting a copy. */
    START_COPY,
    /** A copy that was submitted. */
    COPY,
    /** Waiting for a copy, which leaves open whether it has ended. */
    AWAIT_COPY,
    READ_ROUTES,
    RESET_ROUTES
  }

  private final @Nullable Operation operation;
  private final long call;
  private final AtomicLong calls = new AtomicLong();

  private FaultPlan(@Nullable Operation operation, long call) {
    this.operation = operation;
    this.call = call;
  }

  /** Nothing fails. */
  public static FaultPlan none() {
    return new FaultPlan(null, 0);
  }

  /**
   * One call fails.
   *
   * @param call which one, counted from 1
   */
  public static FaultPlan at(Operation operation, long call) {
    return new FaultPlan(operation, call);
  }

  /** Whether the planned call has been reached. */
  public boolean triggered() {
    return operation != null && calls.get() >= call;
  }

  /** Counts a call; whether it has to fail. */
  public boolean fails(Operation called) {
    return called == operation && calls.incrementAndGet() == call;
  }
}
