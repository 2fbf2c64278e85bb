package dev.expertbank.tests.session;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.memory.MemoryGovernors;
import dev.expertbank.qmoe.FaultyProviderFactory;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.residency.PrefillStreamMetrics;
import dev.expertbank.tests.TestDevice;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Prefill streams cold experts through two slots, and nothing of the output shows it. */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PrefillStreamingTest {
  private static final int LAYERS = 2;
  private static final int EXPERTS = LAYERS * SmallQMoe.EXPERTS;
  private static final long SLOT_BYTES = TestDevice.slotBytes(SmallQMoe.EXPERT_BYTES);
  private static final Map<String, String> STREAMING =
      Map.of("memory.budget", Long.toString(EXPERTS * SLOT_BYTES / 4), "prefill.streaming", "on");

  @TempDir Path directory;

  private Path model;
  private final float[][] prompt = SmallQMoe.tokens(70, 3);
  private float[][] expected;

  @BeforeEach
  void computeInPlace() throws Exception {
    model = SmallQMoe.write(directory, LAYERS);
    try (var open = SmallQMoe.open(model, Map.of())) {
      expected = SmallQMoe.run(open.session(), prompt);
    }
  }

  @Test
  void everyColdExpertOfAChunkIsCopiedOnceAndTheBitsStay() throws Exception {
    try (var open = SmallQMoe.open(model, STREAMING)) {
      assertThat(SmallQMoe.run(open.session(), prompt)).isDeepEqualTo(expected);
      PrefillStreamMetrics first = prefill(open);
      assertThat(first.experts()).as("all experts are cold and routed to").isEqualTo(EXPERTS);
      assertThat(first.bytes()).isGreaterThan(0);
      assertThat(first.copyNanos()).isGreaterThan(0);
      assertThat(first.inPlace()).isZero();
      SmallQMoe.run(open.session(), SmallQMoe.tokens(1, 1));
      assertThat(prefill(open)).as("decode does not stream").isEqualTo(first);
      SmallQMoe.run(open.session(), prompt);
      SmallQMoe.run(open.session(), prompt);
      assertThat(prefill(open).experts())
          .as("resident experts are not streamed")
          .isLessThan(3L * EXPERTS);
      assertThat(SmallQMoe.run(open.session(), prompt)).isDeepEqualTo(expected);
    }
    assertThat(MemoryGovernors.leakReport()).isEmpty();
  }

  @Test
  void aRunThatFindsTheSlotsInUseReadsInPlace() throws Exception {
    try (var open = SmallQMoe.open(model, STREAMING);
        var pool = Executors.newFixedThreadPool(4)) {
      List<Callable<float[][]>> runs = new ArrayList<>();
      for (int i = 0; i < 40; i++) {
        runs.add(() -> SmallQMoe.run(open.session(), prompt));
      }
      for (Future<float[][]> run : pool.invokeAll(runs)) {
        assertThat(run.get()).isDeepEqualTo(expected);
      }
    }
    assertThat(MemoryGovernors.leakReport()).isEmpty();
  }

  @ParameterizedTest
  @EnumSource(
      value = FaultPlan.Operation.class,
      names = {"COMMIT_SLOT", "START_COPY", "COPY", "AWAIT_COPY"})
  void whateverFailsTheBitsStay(FaultPlan.Operation operation) throws Exception {
    int call = 1;
    while (scenario(FaultPlan.at(operation, call))) {
      call++;
    }
    assertThat(call).isGreaterThan(2);
  }

  /** Whether the planned call was reached. */
  private boolean scenario(FaultPlan plan) throws Exception {
    FaultyProviderFactory.plan = plan;
    try (var options = new ai.onnxruntime.OrtSession.SessionOptions();
        var registration =
            ExecutionProviders.require("FaultyQMoE")
                .register(SmallQMoe.ENVIRONMENT, options, TestDevice.options(STREAMING));
        var session = SmallQMoe.ENVIRONMENT.createSession(model.toString(), options)) {
      for (int run = 0; run < 2; run++) {
        assertThat(SmallQMoe.run(session, prompt)).isDeepEqualTo(expected);
      }
      assertThat(registration.sessions()).hasSize(1);
    } catch (ai.onnxruntime.OrtException e) {
      assertThat(e).hasMessageContaining("[device.memory]");
    }
    return plan.triggered();
  }

  @Test
  void streamingWithoutABudgetIsAnError() {
    assertThatThrownBy(() -> SmallQMoe.open(model, Map.of("prefill.streaming", "on")))
        .hasMessageContaining("prefill.streaming needs a memory.budget");
  }

  private static PrefillStreamMetrics prefill(SmallQMoe.Open open) {
    return open.registration().sessions().getFirst().metrics().orElseThrow().prefill();
  }
}
