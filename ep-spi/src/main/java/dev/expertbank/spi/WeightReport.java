package dev.expertbank.spi;

import java.util.Map;

/**
 * How a provider reaches the weights that are not in fast memory.
 *
 * @param inPlaceBytes what kernels read where it is
 * @param stagedBytes what is copied before each use, by the reason why it cannot be read in place
 */
public record WeightReport(long inPlaceBytes, Map<String, Long> stagedBytes) {
  /** A provider that has no weights of its own. */
  public static final WeightReport NONE = new WeightReport(0, Map.of());

  public WeightReport {
    stagedBytes = Map.copyOf(stagedBytes);
  }
}
