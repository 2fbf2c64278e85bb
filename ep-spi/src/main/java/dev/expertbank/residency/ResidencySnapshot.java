package dev.expertbank.residency;

/**
 * All that a policy may know at a boundary. Immutable; experts are addressed by their index in the
 * layout.
 */
public final class ResidencySnapshot {
  /** The last use of an expert that was never used. */
  public static final long NEVER = -1;

  private final ResidencyLayout layout;
  private final long boundary;
  private final long budgetBytes;
  private final long byteCap;
  private final ResidencyState[] states;
  private final long[] residentSince;
  private final double[] usesPerRow;
  private final long[] lastUse;
  private final RouteWindow window;

  ResidencySnapshot(
      ResidencyLedger ledger, HeatTable heat, RouteWindow window, long boundary, long byteCap) {
    layout = ledger.layout();
    this.boundary = boundary;
    budgetBytes = ledger.budgetBytes() - ledger.quarantinedBytes();
    this.byteCap = byteCap;
    int experts = layout.keys().size();
    states = new ResidencyState[experts];
    residentSince = new long[experts];
    for (int index = 0; index < experts; index++) {
      states[index] = ledger.state(index);
      residentSince[index] = ledger.residentSince(index);
    }
    usesPerRow = heat.usesPerRow();
    lastUse = heat.lastUse();
    this.window = window;
  }

  public ResidencyLayout layout() {
    return layout;
  }

  /** Counts the boundaries from 0. */
  public long boundary() {
    return boundary;
  }

  /** What resident experts may take together, in slot bytes; quarantined slots are not in it. */
  public long budgetBytes() {
    return budgetBytes;
  }

  /** What the fills that start at this boundary may copy together, in expert bytes. */
  public long byteCap() {
    return byteCap;
  }

  public ResidencyState state(int index) {
    return states[index];
  }

  /** Whether the expert has a usable slot, or will have one when its copy has arrived. */
  public boolean isHeld(int index) {
    return states[index] == ResidencyState.RESIDENT || states[index] == ResidencyState.FILLING;
  }

  /** Boundaries since the expert was published; 0 if it is not resident. */
  public long residentFor(int index) {
    return states[index] == ResidencyState.RESIDENT ? boundary - residentSince[index] : 0;
  }

  /**
   * The part of the rows that is routed to the expert, 0 to 1: an average with the window that ends
   * at this boundary, in which older windows fade.
   */
  public double usesPerRow(int index) {
    return usesPerRow[index];
  }

  /**
   * What a resident expert saves: bytes for each row and for each byte of its slot. Puts experts of
   * different layers in one order.
   */
  public double savings(int index) {
    return usesPerRow[index] * layout.layer(layout.keys().get(index)).bytesSavedPerSlotByte();
  }

  /** Whether the experts of its layer can be moved one by one. */
  public boolean isPageable(int index) {
    return layout.layer(layout.keys().get(index)).isPageable();
  }

  /** Rows of the window that ends at this boundary that were routed to the expert. */
  public long count(int index) {
    ExpertKey key = layout.keys().get(index);
    return window.count(key.layer(), key.expert());
  }

  /** Rows of the window that ends at this boundary. */
  public long tokens() {
    return window.tokens();
  }

  /** The last boundary whose window used the expert, or {@link #NEVER}. */
  public long lastUse(int index) {
    return lastUse[index];
  }
}
