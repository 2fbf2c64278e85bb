package dev.expertbank.tests.session;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.memory.MemoryGovernors;
import dev.expertbank.memory.Tier;
import dev.expertbank.qmoe.FaultyProviderFactory;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResizeRequest;
import dev.expertbank.residency.ResizeRequest.Direction;
import dev.expertbank.spi.ProviderSession;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * A whole scenario (load, decode, resize down and up, close) in which the n-th call of a device
 * operation fails, for n = 1, 2, 3 … as long as there is such a call.
 */
@Timeout(value = 600, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FaultInjectionTest {
  private static final int RUNS = 24;
  private static final int EXPERTS = 2 * SmallQMoe.EXPERTS;
  private static final long SLOT_BYTES = 8192;
  private static final long EIGHTY_PERCENT = EXPERTS * SLOT_BYTES * 8 / 10;
  private static final long TWENTY_PERCENT = EXPERTS * SLOT_BYTES * 2 / 10;

  @TempDir static Path directory;

  private static Path model;
  private static float[][][] expected;

  @BeforeAll
  static void computeWithEverythingInPlace() throws Exception {
    model = SmallQMoe.write(directory, 2);
    expected = new float[RUNS][][];
    try (var open = SmallQMoe.open(model, Map.of())) {
      for (int run = 0; run < RUNS; run++) {
        expected[run] = SmallQMoe.run(open.session(), SmallQMoe.tokens(1, run));
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void whateverFailsTheOutputStaysAndNothingIsLost(FaultPlan.Operation operation) throws Exception {
    int call = 1;
    FaultPlan plan = FaultPlan.at(operation, call);
    while (scenario(plan)) {
      call++;
      plan = FaultPlan.at(operation, call);
    }
    assertThat(call).as("calls of %s", operation).isGreaterThan(2);
  }

  /** Whether the planned call was reached. */
  private static boolean scenario(FaultPlan plan) throws Exception {
    FaultyProviderFactory.plan = plan;
    try (var options = new ai.onnxruntime.OrtSession.SessionOptions();
        var registration =
            ExecutionProviders.require("FaultyQMoE")
                .register(
                    SmallQMoe.ENVIRONMENT,
                    options,
                    Map.of(
                        "memory.budget",
                        Long.toString(EIGHTY_PERCENT),
                        "residency.policy",
                        "lru"));
        var memory = MemoryGovernors.forDevice("host", Map.of());
        var session = SmallQMoe.ENVIRONMENT.createSession(model.toString(), options)) {
      ProviderSession provider = registration.sessions().getFirst();
      long shrunk = 0;
      for (int run = 0; run < RUNS; run++) {
        if (run == RUNS / 3) {
          shrunk = resize(provider, Direction.SHRINK, EIGHTY_PERCENT - TWENTY_PERCENT);
        } else if (run == 2 * RUNS / 3) {
          assertThat(resize(provider, Direction.GROW, shrunk)).isEqualTo(shrunk);
        }
        assertThat(SmallQMoe.run(session, SmallQMoe.tokens(1, run))).isDeepEqualTo(expected[run]);
        ResidencyMetrics metrics = provider.metrics().orElseThrow();
        assertThat(metrics.committedBytes()).isLessThanOrEqualTo(metrics.heldBytes());
        assertThat(metrics.heldBytes()).isLessThanOrEqualTo(metrics.budgetBytes());
        assertThat(metrics.budgetBytes()).isLessThanOrEqualTo(EIGHTY_PERCENT);
        assertThat(memory.governor().usage(Tier.HOST).mapped()).isEqualTo(metrics.heldBytes());
      }
    }
    assertThat(MemoryGovernors.leakReport()).isEmpty();
    return plan.triggered();
  }

  /** The bytes by which the budget has changed. */
  private static long resize(ProviderSession session, Direction direction, long bytes)
      throws Exception {
    return session
        .resize(new ResizeRequest(direction, bytes))
        .get(10, TimeUnit.SECONDS)
        .achievedBytes();
  }
}
