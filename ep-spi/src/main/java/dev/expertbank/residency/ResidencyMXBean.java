package dev.expertbank.residency;

/**
 * The residency of one session, for management tools: {@code
 * dev.expertbank:type=Residency,device=…,session=…}. {@link ResidencyMetrics} says what each number
 * is.
 */
public interface ResidencyMXBean {
  double getByteHitRate();

  boolean isArmed();

  long getHits();

  long getMisses();

  long getPromotedBytes();

  long getResidentBytes();

  long getBudgetBytes();

  long getHeldBytes();

  long getPeakCommittedBytes();

  int getQuarantinedSlots();
}
