package dev.expertbank.memory;

/**
 * Ownership of a number of bytes of one tier. The holder keeps it open for as long as it owns the
 * memory and closes it after the memory is freed. Safe for use by any thread.
 */
public final class MemoryLease implements AutoCloseable {
  private final TierBooks books;
  private final MemoryRole role;
  private final HolderId holder;

  // Read and written by the books, under their lock.
  long bytes;
  boolean closed;

  MemoryLease(TierBooks books, MemoryRole role, HolderId holder) {
    this.books = books;
    this.role = role;
    this.holder = holder;
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

  /** The bytes owned now; zero once closed. */
  public long bytes() {
    return books.bytesOf(this);
  }

  /**
   * Claims more bytes and adds them to this lease.
   *
   * @throws MemoryException if they do not fit or the lease is closed; the lease is as before
   */
  public void grow(long more) {
    books.grow(this, more);
  }

  /**
   * Gives bytes back, at most those that the lease has.
   *
   * @return the bytes given back
   * @throws MemoryException if {@code fewer} is negative
   */
  public long shrink(long fewer) {
    return books.shrink(this, fewer);
  }

  /**
   * Claims a second lease of the same tier, role and holder, for memory that is acquired before the
   * old one is freed.
   *
   * @throws MemoryException if it does not fit or this lease is closed
   */
  public MemoryLease reserveSibling(long siblingBytes) {
    MemoryLease sibling = new MemoryLease(books, role, holder);
    books.openSibling(this, sibling, siblingBytes);
    return sibling;
  }

  /**
   * Takes over the bytes of a sibling, which is closed by that.
   *
   * @throws MemoryException unless the other is another open lease of the same books, tier, role
   *     and holder
   */
  public void absorbSibling(MemoryLease sibling) {
    if (sibling == this
        || sibling.books != books
        || sibling.role != role
        || !sibling.holder.equals(holder)) {
      throw books.invalid(
          0, "a lease can absorb only another lease of its own books, tier, role and holder.");
    }
    books.absorb(this, sibling);
  }

  /** Gives all bytes back. Cannot fail; closing again does nothing. */
  @Override
  public void close() {
    books.close(this);
  }

  @Override
  public String toString() {
    return "lease of " + bytes() + " bytes (" + role + ")";
  }
}
