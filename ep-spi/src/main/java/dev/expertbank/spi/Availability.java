package dev.expertbank.spi;

import java.util.List;

/** Whether a provider can run on this machine. */
public sealed interface Availability {
  /**
   * The provider can run.
   *
   * @param devices identifiers that the provider accepts for a device here, best first
   */
  record Available(List<String> devices) implements Availability {
    public Available {
      devices = List.copyOf(devices);
    }
  }

  /**
   * The provider cannot run.
   *
   * @param reasons all of them, each one sentence that says what is missing
   */
  record Unavailable(List<String> reasons) implements Availability {
    public Unavailable {
      reasons = List.copyOf(reasons);
    }
  }
}
