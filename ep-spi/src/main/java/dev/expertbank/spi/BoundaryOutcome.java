package dev.expertbank.spi;

import dev.expertbank.residency.ResidencyOutcome;

/** What a provider did at a boundary. */
public sealed interface BoundaryOutcome {
  /** The provider keeps nothing whose residency could change. */
  record NotResident() implements BoundaryOutcome {
    private static final NotResident INSTANCE = new NotResident();
  }

  /** What became of residency. */
  record Resident(ResidencyOutcome residency) implements BoundaryOutcome {}

  /** The provider threw: the host's record of it. The finished run is not affected. */
  record Failed(String reason) implements BoundaryOutcome {}

  static BoundaryOutcome notResident() {
    return NotResident.INSTANCE;
  }
}
