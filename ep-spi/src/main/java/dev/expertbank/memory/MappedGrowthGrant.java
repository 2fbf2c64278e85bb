package dev.expertbank.memory;

import java.util.ArrayList;
import java.util.List;

/**
 * Capacity that is set aside for one allowance to map. Commit it with the bytes really mapped, or
 * close it uncommitted: what was not used goes back to where it came from. Safe for use by any
 * thread.
 */
public final class MappedGrowthGrant implements AutoCloseable {
  /** A part of the limit of another allowance that moved to this grant. */
  record Share(MappedAllowance from, long bytes) {}

  final MappedAllowance requester;
  final long bytes;

  // Read and written by the books, under their lock.
  long fromOwn;
  long fromUnclaimed;
  final List<Share> moved = new ArrayList<>();
  boolean ended;

  MappedGrowthGrant(MappedAllowance requester, long bytes) {
    this.requester = requester;
    this.bytes = bytes;
  }

  /** The bytes that may be mapped and committed. */
  public long bytes() {
    return bytes;
  }

  /**
   * Accounts for the mapped bytes in the requester's allowance, whose limit grows as far as its own
   * room did not suffice, and ends the grant.
   *
   * @param actualBytes bytes mapped, at most {@link #bytes}
   * @throws MemoryException if there are more, or the grant has ended, or the allowance is closed;
   *     the grant is as before
   */
  public void commit(long actualBytes) {
    requester.books().commit(this, actualBytes);
  }

  /** Gives everything back unless the grant was committed. Closing again does nothing. */
  @Override
  public void close() {
    requester.books().cancel(this);
  }
}
