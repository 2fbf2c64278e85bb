package dev.expertbank.memory;

/**
 * How much of one tier a holder may map. The limit is a claim on the tier, whether it is mapped or
 * not, and it can move: growth of another holder may take part of it.
 *
 * <p>What holders have mapped counts even where it exceeds the limit, so a limit is lowered first
 * and memory freed after that; the capacity comes back as it is unmapped. Safe for use by any
 * thread.
 */
public final class MappedAllowance implements AutoCloseable {
  private final TierBooks books;
  private final MemoryRole role;
  private final HolderId holder;

  // Read and written by the books, under their lock.
  long limit;
  long mapped;

  /** The part of the limit that open grants of this holder will map. */
  long growthReserved;

  /** The part of the limit that growth of another holder is taking. */
  long reclaiming;

  boolean closed;

  MappedAllowance(TierBooks books, MemoryRole role, HolderId holder) {
    this.books = books;
    this.role = role;
    this.holder = holder;
  }

  TierBooks books() {
    return books;
  }

  public Tier tier() {
    return books.tier();
  }

  public MemoryRole role() {
    return role;
  }

  public HolderId holder() {
    return holder;
  }

  /** The bytes that the holder may have mapped, leaving out what growth has set aside. */
  public long limit() {
    synchronized (books) {
      return unreserved();
    }
  }

  public long mapped() {
    synchronized (books) {
      return mapped;
    }
  }

  /** The bytes that {@link #tryMap} would accept now. */
  public long available() {
    synchronized (books) {
      return room();
    }
  }

  /**
   * Accounts for bytes about to be mapped.
   *
   * @return false if they do not fit; nothing has changed then
   * @throws MemoryException if {@code bytes} is negative
   */
  public boolean tryMap(long bytes) {
    return books.tryMap(this, bytes);
  }

  /**
   * Accounts for bytes that have been unmapped.
   *
   * @return the bytes taken off, at most those that were mapped
   * @throws MemoryException if {@code bytes} is negative
   */
  public long unmap(long bytes) {
    return books.unmap(this, bytes);
  }

  /**
   * Claims more capacity from what no one has claimed, and adds it to the limit.
   *
   * @throws MemoryException if it does not fit or the allowance is closed
   */
  public void raiseLimit(long more) {
    books.raiseLimit(this, more);
  }

  /**
   * Lowers the limit, at most to zero, also below what is mapped: the holder then unmaps.
   *
   * @return the bytes by which the limit fell
   * @throws MemoryException if {@code fewer} is negative
   */
  public long lowerLimit(long fewer) {
    return books.lowerLimit(this, fewer);
  }

  /**
   * Gives the limit back. What is still mapped stays accounted until it is unmapped. Closing again
   * does nothing.
   */
  @Override
  public void close() {
    books.close(this);
  }

  // The three below are called under the lock of the books.

  long unreserved() {
    return limit - growthReserved - reclaiming;
  }

  long room() {
    return Math.max(0, unreserved() - mapped);
  }

  /** What counts against the tier. */
  long claim() {
    return Math.max(limit, mapped + growthReserved);
  }

  @Override
  public String toString() {
    synchronized (books) {
      return "allowance of " + limit + " bytes, " + mapped + " mapped (" + role + ")";
    }
  }
}
