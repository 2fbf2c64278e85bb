package dev.expertbank.memory;

/**
 * Identifies one set of books. Two governors of one device are two authorities, so ids are equal
 * only if they are the same object.
 */
public final class MemoryAuthorityId {
  private final String device;

  MemoryAuthorityId(String device) {
    this.device = device;
  }

  /** The device whose memory these books count, such as {@code cuda:0}. */
  public String device() {
    return device;
  }

  @Override
  public String toString() {
    return device;
  }
}
