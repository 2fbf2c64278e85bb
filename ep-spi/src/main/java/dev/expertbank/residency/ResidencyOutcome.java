package dev.expertbank.residency;

import java.util.List;

/** What became of one boundary. */
public sealed interface ResidencyOutcome {
  /** Residency is not armed: nothing was read. */
  record Disabled() implements ResidencyOutcome {}

  /** Something is in the way: the window was not read and goes on. */
  record RejectedNotSafeBoundary(SafePoint.Blocker blocker) implements ResidencyOutcome {}

  /** The window decides nothing: it was consumed, and nothing was moved. */
  record WholeBank(RouteWindowProblem problem, String detail) implements ResidencyOutcome {}

  /**
   * Reading, moving or resetting failed, and residency has disarmed itself. The experts stay where
   * they are.
   */
  record Failed(String reason) implements ResidencyOutcome {}

  /**
   * The window was consumed and the plan applied as far as the budget and the byte cap go.
   *
   * @param epoch the number of the window
   * @param extent how much of what the plan asks for was started
   * @param requestedBytes expert bytes that the plan wants and that were cold
   * @param use what the runs of the window found
   * @param moves what was moved
   * @param degraded layers that were left as they are
   */
  record Applied(
      long epoch,
      Extent extent,
      long requestedBytes,
      WindowUse use,
      Moves moves,
      List<LayerDegradation> degraded)
      implements ResidencyOutcome {
    public Applied {
      degraded = List.copyOf(degraded);
    }

    /** Expert bytes of the fills that started. */
    public long achievedBytes() {
      return moves.startedBytes();
    }
  }

  /** How much of the request was achieved. */
  enum Extent {
    /** All of it. */
    FULL,
    /** Some of it: the byte cap or failures left the rest. */
    PARTIAL,
    /** Nothing, because nothing was requested or every fill failed to start. */
    NOTHING
  }

  /**
   * What the runs of a window found. An expert that a window routes to is used once in it: a hit if
   * it was resident, else a miss, which reads its bytes in place.
   */
  record WindowUse(long tokens, long hits, long misses, long hitBytes, long missedBytes) {}

  /**
   * What a boundary moved, in experts.
   *
   * @param started fills that will be published at the next boundary
   * @param startedBytes expert bytes that they copy
   * @param published fills of the boundary before that arrived
   * @param failed fills that did not start, or ended with an error
   * @param quarantined fills that may still be in flight
   */
  record Moves(
      int started, long startedBytes, int published, int evicted, int failed, int quarantined) {}
}
