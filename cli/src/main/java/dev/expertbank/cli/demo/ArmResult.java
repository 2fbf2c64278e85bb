package dev.expertbank.cli.demo;

import dev.expertbank.spi.PlacementReport;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/** What one way to open the model showed. */
sealed interface ArmResult {
  Arm arm();

  /**
   * The arm ran.
   *
   * @param startSeconds time to find and register the provider; once per process
   * @param loadSeconds time of {@code createSession}
   * @param residentBytes what loading added to the process; empty where it cannot be told
   * @param tokenMillis median of the runs of one token
   * @param batchTokensPerSecond from the median of the runs of {@link Workload#BATCH_TOKENS} tokens
   * @param outputs of the compared runs, for the difference between arms
   * @param placement of the provider, where there was one
   */
  record Measured(
      Arm arm,
      double startSeconds,
      double loadSeconds,
      OptionalLong residentBytes,
      double tokenMillis,
      double batchTokensPerSecond,
      List<float[]> outputs,
      Optional<PlacementReport> placement)
      implements ArmResult {}

  /** The arm could not open or run the model. */
  record Failed(Arm arm, String reason) implements ArmResult {}
}
