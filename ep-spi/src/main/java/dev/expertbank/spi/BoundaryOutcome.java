package dev.expertbank.spi;

/** What a provider did at a boundary. */
public sealed interface BoundaryOutcome {
  /** The provider keeps nothing whose residency could change. */
  record NotResident() implements BoundaryOutcome {
    private static final NotResident INSTANCE = new NotResident();
  }

  /** The provider threw: the host's record of it. The finished run is not affected. */
  record Failed(String reason) implements BoundaryOutcome {}

  static BoundaryOutcome notResident() {
    return NotResident.INSTANCE;
  }
}
