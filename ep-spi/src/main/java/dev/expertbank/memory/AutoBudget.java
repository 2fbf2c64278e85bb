package dev.expertbank.memory;

/**
 * A budget derived from what is free now.
 *
 * @param bytes the budget
 * @param explanation how it came about, one sentence with all numbers
 */
public record AutoBudget(long bytes, String explanation) {
  /**
   * The budget is what is free less a reserve, at least zero and at most the cap.
   *
   * @param freeBytes what is free now
   * @param reserveBytes what to leave free for others
   * @param capBytes the most that could be of use, such as the size of all experts
   * @throws IllegalArgumentException if a number is negative
   */
  public static AutoBudget of(long freeBytes, long reserveBytes, long capBytes) {
    if (freeBytes < 0 || reserveBytes < 0 || capBytes < 0) {
      throw new IllegalArgumentException(
          "bytes cannot be negative: free "
              + freeBytes
              + ", reserve "
              + reserveBytes
              + ", cap "
              + capBytes);
    }
    long spendable = Math.max(0, freeBytes - reserveBytes);
    long budget = Math.min(spendable, capBytes);
    String how = freeBytes + " bytes free less " + reserveBytes + " reserved is " + spendable;
    if (freeBytes < reserveBytes) {
      how = freeBytes + " bytes free is less than the reserve of " + reserveBytes;
    } else if (spendable > capBytes) {
      how += ", of which no more than " + capBytes + " can be used";
    }
    return new AutoBudget(budget, "budget " + budget + " bytes: " + how);
  }
}
