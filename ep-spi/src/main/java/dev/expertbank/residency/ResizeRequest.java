package dev.expertbank.residency;

/**
 * A wish to change the budget.
 *
 * @param bytes by how much, not to how much; not negative
 */
public record ResizeRequest(Direction direction, long bytes) {
  /** Which way. */
  public enum Direction {
    GROW,
    SHRINK
  }

  public ResizeRequest {
    if (bytes < 0) {
      throw new IllegalArgumentException("a resize by " + bytes + " bytes");
    }
  }
}
