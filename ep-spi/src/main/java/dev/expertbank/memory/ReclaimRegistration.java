package dev.expertbank.memory;

/**
 * Keeps a {@link ReclaimableHolder} known to its governor until closed. After {@link #close} no new
 * request reaches the holder; one that is under way on another thread may still be ending.
 */
public final class ReclaimRegistration implements AutoCloseable {
  private final MappedGrowth growth;
  private final ReclaimableHolder holder;
  private final MappedAllowance allowance;
  private final int priority;

  ReclaimRegistration(MappedGrowth growth, ReclaimableHolder holder) {
    this.growth = growth;
    this.holder = holder;
    this.allowance = holder.allowance();
    this.priority = holder.reclaimPriority();
  }

  ReclaimableHolder holder() {
    return holder;
  }

  MappedAllowance allowance() {
    return allowance;
  }

  int priority() {
    return priority;
  }

  /** Closing again does nothing. */
  @Override
  public void close() {
    growth.forget(this);
  }
}
