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
   * What the runs of one or more windows found. An expert that a window routes to is used once in
   * it: a hit if it was resident, else a miss, which reads its bytes in place.
   *
   * @param tokens rows
   * @param hits experts that were resident when a window used them
   * @param misses experts that were not
   * @param hitBytes expert bytes of the hits
   * @param missedBytes expert bytes of the misses
   */
  record WindowUse(long tokens, long hits, long misses, long hitBytes, long missedBytes) {
    /** Nothing. */
    public static final WindowUse NONE = new WindowUse(0, 0, 0, 0, 0);

    /** The sum of both. */
    public WindowUse plus(WindowUse other) {
      return new WindowUse(
          tokens + other.tokens,
          hits + other.hits,
          misses + other.misses,
          hitBytes + other.hitBytes,
          missedBytes + other.missedBytes);
    }

    /** The part of the used bytes that was resident; NaN before the first use. */
    public double byteHitRate() {
      return (double) hitBytes / (hitBytes + missedBytes);
    }
  }

  /**
   * What one or more boundaries moved, in experts.
   *
   * @param started fills that will be published at the next boundary
   * @param startedBytes expert bytes that they copy
   * @param published fills of the boundary before that arrived
   * @param failed fills that did not start, or ended with an error
   * @param quarantined fills that may still be in flight
   */
  record Moves(
      long started,
      long startedBytes,
      long published,
      long evicted,
      long failed,
      long quarantined) {
    /** Nothing. */
    public static final Moves NONE = new Moves(0, 0, 0, 0, 0, 0);

    /** The sum of both. */
    public Moves plus(Moves other) {
      return new Moves(
          started + other.started,
          startedBytes + other.startedBytes,
          published + other.published,
          evicted + other.evicted,
          failed + other.failed,
          quarantined + other.quarantined);
    }
  }
}
