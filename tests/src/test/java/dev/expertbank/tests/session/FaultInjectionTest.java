package dev.expertbank.tests.session;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.memory.MemoryGovernors;
import dev.expertbank.qmoe.FaultyProviderFactory;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResizeRequest;
import dev.expertbank.residency.ResizeRequest.Direction;
import dev.expertbank.spi.ProviderSession;
import dev.expertbank.tests.TestDevice;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * A whole scenario (load, 32 decode steps of the recorded routes, resize to 20 % and back to 80 %
 * of the bank, close) in which the n-th call of a device operation fails, for n = 1, 2, 3 … as long
 * as there is such a call. The first layers of the recorded model stand for all of them.
 */
@Timeout(value = 600, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FaultInjectionTest {
  private static final int RUNS = 32;
  private static final int LAYERS = 4;
  private static final long BANK_BYTES = LAYERS * RoutedModel.EXPERTS * RoutedModel.SLOT_BYTES;
  private static final long EIGHTY_PERCENT = BANK_BYTES * 8 / 10;
  private static final long TWENTY_PERCENT = BANK_BYTES * 2 / 10;

  /** A few copies after each run, so that a scenario has some two hundred of them. */
  private static final long BYTE_CAP = 6 * RoutedModel.EXPERT_BYTES;

  /** The prompt comes first. */
  private static final int[][][][] ROUTES = GraniteRoutes.prompt("english_prose").runs();

  @TempDir static Path directory;

  private static Path model;
  private static float[][][] expected;

  @BeforeAll
  static void computeWithEverythingInPlace() throws Exception {
    model = RoutedModel.write(directory, LAYERS);
    expected = new float[RUNS][][];
    try (var open = SmallQMoe.open(model, Map.of())) {
      for (int run = 0; run < RUNS; run++) {
        expected[run] = RoutedModel.run(open.session(), ROUTES[1 + run]);
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void whateverFailsTheOutputStaysAndNothingIsLost(FaultPlan.Operation operation) throws Exception {
    int call = 1;
    FaultPlan plan = FaultPlan.at(operation, call);
    while (scenario(plan)) {
      // A GPU's operations are several calls of the driver each: of the later ones, some.
      call += TestDevice.isHost() ? 1 : 1 + call / 4;
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
                    TestDevice.options(
                        Map.of(
                            "memory.budget",
                            Long.toString(EIGHTY_PERCENT),
                            "residency.byte-cap",
                            Long.toString(BYTE_CAP),
                            "residency.policy",
                            "lru")));
        var memory = MemoryGovernors.forDevice(TestDevice.name(), Map.of());
        var session = SmallQMoe.ENVIRONMENT.createSession(model.toString(), options)) {
      ProviderSession provider = registration.sessions().getFirst();
      long shrunk = 0;
      for (int run = 0; run < RUNS; run++) {
        if (run == RUNS / 3) {
          shrunk = resize(provider, Direction.SHRINK, EIGHTY_PERCENT - TWENTY_PERCENT);
        } else if (run == 2 * RUNS / 3) {
          assertThat(resize(provider, Direction.GROW, shrunk)).isEqualTo(shrunk);
        }
        assertThat(RoutedModel.run(session, ROUTES[1 + run])).isDeepEqualTo(expected[run]);
        ResidencyMetrics metrics = provider.metrics().orElseThrow();
        assertThat(metrics.committedBytes()).isLessThanOrEqualTo(metrics.heldBytes());
        assertThat(metrics.heldBytes()).isLessThanOrEqualTo(metrics.budgetBytes());
        assertThat(metrics.budgetBytes()).isLessThanOrEqualTo(EIGHTY_PERCENT);
        assertThat(memory.governor().usage(TestDevice.tier()).mapped())
            .isEqualTo(metrics.heldBytes());
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
