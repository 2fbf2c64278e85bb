package dev.expertbank.memory;

/**
 * The books of one tier at one moment, in bytes.
 *
 * @param limit what claims may sum up to; {@link MemoryGovernor#UNLIMITED} if nothing bounds them
 * @param leased the sum of the live leases
 * @param assigned the sum over the mapped allowances of the limit, or of what is mapped where that
 *     is more
 * @param mapped the part of {@code assigned} that holders have mapped
 * @param growthReserved set aside for grants that are not committed yet, from outside the
 *     requesters' allowances
 * @param unmapUnderflow what holders unmapped without having mapped it: zero unless a holder is
 *     wrong
 * @param reservations leases opened so far
 * @param releases leases ended so far
 */
public record TierUsage(
    long limit,
    long leased,
    long assigned,
    long mapped,
    long growthReserved,
    long unmapUnderflow,
    long reservations,
    long releases) {
  /** What counts against the limit. */
  public long claimed() {
    return leased + assigned + growthReserved;
  }

  /** What a new claim may still take. */
  public long available() {
    return Math.max(0, limit - claimed());
  }

  /** By how much the claims exceed the limit, after it was lowered or passed by a record. */
  public long oversubscribed() {
    return Math.max(0, claimed() - limit);
  }

  /** Bytes that are really in use: leased and mapped. */
  public long held() {
    return leased + mapped;
  }
}
