package dev.expertbank.residency;

import dev.expertbank.residency.ResizeRejection.ExecutionFailed;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;

/** Executes accepted resizes on the ledger. Whatever fails, the ledger and the table agree. */
final class ResidencyResizer {
  private final ResidencyLedger ledger;
  private final ResidencyMover mover;

  ResidencyResizer(ResidencyLedger ledger, ResidencyMover mover) {
    this.ledger = ledger;
    this.mover = mover;
  }

  /**
   * Resizes as far as it goes.
   *
   * @param victims resident experts, the least valuable first
   */
  ResizeOutcome execute(ResizeRequest request, BudgetLease lease, List<ExpertKey> victims) {
    return switch (request.direction()) {
      case GROW -> grow(request, lease);
      case SHRINK -> shrink(request, lease, victims.iterator());
    };
  }

  private ResizeOutcome grow(ResizeRequest request, BudgetLease lease) {
    long before = ledger.budgetBytes();
    long granted;
    try {
      Math.addExact(before, request.bytes());
      granted = checked(lease.grow(request.bytes()), request.bytes());
    } catch (RuntimeException e) {
      return failed(request, before, e);
    }
    ledger.setBudget(before + granted);
    return outcome(request, before, Optional.empty());
  }

  /** The limit goes down first: nothing that is evicted can come back while others are. */
  private ResizeOutcome shrink(
      ResizeRequest request, BudgetLease lease, Iterator<ExpertKey> victims) {
    long before = ledger.budgetBytes();
    long target = Math.max(0, before - request.bytes());
    ledger.setBudget(target);
    Optional<RuntimeException> failure = Optional.empty();
    long returned = 0;
    try {
      while (ledger.committedBytes() > target && victims.hasNext()) {
        mover.evict(victims.next());
      }
    } catch (RuntimeException e) {
      failure = Optional.of(e);
    }
    long free = before - Math.max(target, ledger.committedBytes());
    try {
      if (free > 0) {
        returned = checked(lease.shrink(free), free);
      }
    } catch (RuntimeException e) {
      failure = Optional.of(e);
    }
    ledger.setBudget(before - returned);
    return failure
        .map(e -> failed(request, before, e))
        .orElseGet(() -> outcome(request, before, Optional.empty()));
  }

  private static long checked(long achieved, long requested) {
    if (achieved < 0 || achieved > requested) {
      throw new IllegalStateException(
          "the lease answered " + achieved + " to a request of " + requested + " bytes");
    }
    return achieved;
  }

  private ResizeOutcome failed(ResizeRequest request, long before, RuntimeException e) {
    return outcome(request, before, Optional.of(new ExecutionFailed(e.toString())));
  }

  private ResizeOutcome outcome(
      ResizeRequest request, long before, Optional<ResizeRejection> rejection) {
    return new ResizeOutcome(request, before, ledger.budgetBytes(), rejection);
  }
}
