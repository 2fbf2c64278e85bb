package dev.expertbank.memory;

/**
 * A claim that has not been given back.
 *
 * @param bytes what counts against the tier
 * @param mapped what an allowance has mapped; zero for a lease
 * @param allowance whether this is a mapped allowance, else a lease
 */
public record OutstandingClaim(
    Tier tier, HolderId holder, MemoryRole role, long bytes, long mapped, boolean allowance) {
  String line() {
    return allowance
        ? "allowance, " + role + ": " + bytes + " bytes, " + mapped + " mapped"
        : "lease, " + role + ": " + bytes + " bytes";
  }
}
