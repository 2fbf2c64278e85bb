package dev.expertbank.residency;

import dev.expertbank.residency.ResidencyActions.FillEnd;
import dev.expertbank.residency.ResidencyActions.FillStart;
import dev.expertbank.residency.ResidencyOutcome.Moves;
import java.util.ArrayDeque;
import java.util.Queue;

/** Moves experts: every action with the transition of the ledger that belongs to it. */
final class ResidencyMover {
  private final ResidencyLedger ledger;
  private final ResidencyActions actions;

  /** The filling experts, in the order in which their copies were started. */
  private final Queue<ExpertKey> filling = new ArrayDeque<>();

  private long started;
  private long published;
  private long evicted;
  private long failed;
  private long quarantined;
  private long startedBytes;

  ResidencyMover(ResidencyLedger ledger, ResidencyActions actions) {
    this.ledger = ledger;
    this.actions = actions;
  }

  /** Waits for every copy that was started and publishes what arrived. */
  void publishFilled(long boundary) {
    for (ExpertKey key = filling.poll(); key != null; key = filling.poll()) {
      switch (await(key)) {
        case COMPLETED -> {
          actions.publish(key);
          ledger.publish(key, boundary);
          published++;
        }
        case FAILED -> {
          ledger.failFill(key);
          failed++;
        }
        case MAY_BE_IN_FLIGHT -> quarantine(key);
      }
    }
  }

  private FillEnd await(ExpertKey key) {
    try {
      return actions.awaitFill(key);
    } catch (RuntimeException e) {
      quarantine(key);
      throw e;
    }
  }

  /** Starts the copy of a cold expert that fits; whether it was started. */
  boolean startFill(ExpertKey key) {
    ledger.startFill(key);
    FillStart start;
    try {
      start = actions.startFill(key);
    } catch (RuntimeException e) {
      quarantine(key);
      throw e;
    }
    if (start == FillStart.NOT_SUBMITTED) {
      ledger.failFill(key);
      failed++;
      return false;
    }
    filling.add(key);
    started++;
    startedBytes += ledger.layout().layer(key).expertBytes();
    return true;
  }

  void evict(ExpertKey key) {
    actions.unpublish(key);
    ledger.evict(key);
    evicted++;
  }

  private void quarantine(ExpertKey key) {
    ledger.quarantine(key);
    quarantined++;
  }

  /** What was moved since this was asked last. */
  Moves takeMoves() {
    Moves moves = new Moves(started, startedBytes, published, evicted, failed, quarantined);
    started = 0;
    published = 0;
    evicted = 0;
    failed = 0;
    quarantined = 0;
    startedBytes = 0;
    return moves;
  }
}
