package dev.expertbank.residency;

import java.util.Optional;

/**
 * What stands in the way of moving memory now. The scope is one bank.
 *
 * @param capturing a graph capture is open, or it could not be found out
 * @param pendingFills copies into slots and releases of slots that have not ended
 * @param runsInFlight runs that may read any slot
 * @param multiDevice the experts are on more than one device
 * @param routeGuards holders that rely on experts staying where they are
 */
public record SafePoint(
    boolean capturing, int pendingFills, int runsInFlight, boolean multiDevice, int routeGuards) {

  /** Nothing is in the way. */
  public static final SafePoint CLEAR = new SafePoint(false, 0, 0, false, 0);

  /** It could not be found out. */
  static final SafePoint UNKNOWN = new SafePoint(true, 0, 0, false, 0);

  /** What is in the way, the most important first. */
  public enum Blocker {
    CAPTURING,
    PENDING_FILLS,
    RUNS_IN_FLIGHT,
    MULTI_DEVICE,
    ROUTE_GUARDS
  }

  /** The most important blocker of a resize. */
  public Optional<Blocker> blocker() {
    if (capturing) {
      return Optional.of(Blocker.CAPTURING);
    }
    return pendingFills > 0 ? Optional.of(Blocker.PENDING_FILLS) : boundaryBlocker();
  }

  /** The most important blocker of a boundary, which itself ends the pending fills. */
  public Optional<Blocker> boundaryBlocker() {
    if (capturing) {
      return Optional.of(Blocker.CAPTURING);
    }
    if (runsInFlight > 0) {
      return Optional.of(Blocker.RUNS_IN_FLIGHT);
    }
    if (multiDevice) {
      return Optional.of(Blocker.MULTI_DEVICE);
    }
    return routeGuards > 0 ? Optional.of(Blocker.ROUTE_GUARDS) : Optional.empty();
  }
}
