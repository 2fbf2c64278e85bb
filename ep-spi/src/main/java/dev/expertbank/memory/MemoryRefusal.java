package dev.expertbank.memory;

import java.io.Serializable;

/** Why a request for memory was refused. A refusal has changed nothing. */
public sealed interface MemoryRefusal extends Serializable {
  /** The stable code of the error. */
  String code();

  /** What was wrong, where, and what to do. */
  String message();

  /**
   * The claim does not fit.
   *
   * @param used bytes claimed already
   * @param available bytes that could be claimed
   */
  record TierExhausted(
      Tier tier, long requested, long used, long limit, long available, MemoryRole role)
      implements MemoryRefusal {
    @Override
    public String code() {
      return "memory.tier-exhausted";
    }

    @Override
    public String message() {
      return "The "
          + tier
          + " memory has no room for "
          + numbers(requested, used, limit, available, role)
          + "; raise the limit, or claim less.";
    }
  }

  /**
   * Capacity that exists on paper could not be had.
   *
   * @param source what could not deliver it, and why
   */
  record CapacityUnavailable(
      Tier tier,
      long requested,
      long used,
      long limit,
      long available,
      MemoryRole role,
      String source)
      implements MemoryRefusal {
    @Override
    public String code() {
      return "memory.capacity-unavailable";
    }

    @Override
    public String message() {
      return "The "
          + tier
          + " memory could not free "
          + numbers(requested, used, limit, available, role)
          + ": "
          + source
          + ".";
    }
  }

  /** The request makes no sense, whatever is free. */
  record InvalidRequest(Tier tier, long requested, String reason) implements MemoryRefusal {
    @Override
    public String code() {
      return "memory.invalid-request";
    }

    @Override
    public String message() {
      return "A request for " + requested + " bytes of " + tier + " memory is invalid: " + reason;
    }
  }

  /** The claim was granted, but the device could not allocate; the claim has been given back. */
  record AllocationFailed(Tier tier, long requested, MemoryRole role, String what)
      implements MemoryRefusal {
    @Override
    public String code() {
      return "memory.allocation-failed";
    }

    @Override
    public String message() {
      return "Allocating "
          + requested
          + " bytes of "
          + tier
          + " memory failed ("
          + what
          + ", role "
          + role
          + ") although the budget allowed it; other processes may use the device, so lower the"
          + " budget.";
    }
  }

  private static String numbers(
      long requested, long used, long limit, long available, MemoryRole role) {
    return requested
        + " bytes (role "
        + role
        + "): "
        + used
        + " of "
        + MemoryGovernor.limitText(limit)
        + " claimed, "
        + available
        + " available";
  }
}
