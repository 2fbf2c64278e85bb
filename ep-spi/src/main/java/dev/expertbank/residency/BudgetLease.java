package dev.expertbank.residency;

/** The memory behind a budget: who grants it, and where it goes back to. */
public interface BudgetLease {
  /**
   * Asks for more memory.
   *
   * @return what was granted, 0 to {@code bytes}
   * @throws RuntimeException if nothing was granted, with the reason
   */
  long grow(long bytes);

  /**
   * Gives memory back that no slot uses.
   *
   * @return what could be given back, 0 to {@code bytes}
   * @throws RuntimeException if nothing could, with the reason
   */
  long shrink(long bytes);
}
