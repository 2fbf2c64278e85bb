package dev.expertbank.tests.host;

import static dev.expertbank.tests.host.HostScenarios.run;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtEpDevice;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.api.Provider;
import dev.expertbank.api.Registration;
import dev.expertbank.spi.Claim;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.PlacementReport.NodePlacement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

class HostTest {
  private static final byte[] NEG_RELU_NEG = SmallModels.chain("Neg", "Relu", "Neg");

  private final OrtEnvironment environment = OrtEnvironment.getEnvironment();
  private final Provider relu = ExecutionProviders.require("JavaRelu");

  @Test
  void aProviderThatIsNotQMoeRunsItsNodesAndReportsEveryNodeItSaw() throws Exception {
    try (var options = new OrtSession.SessionOptions();
        var registration = relu.register(environment, options, Map.of());
        var session = environment.createSession(NEG_RELU_NEG, options)) {
      assertThat(run(session, 1, -2, 3)).containsExactly(-0f, -2, -0f);
      var view = registration.sessions().getFirst();
      assertThat(view.placement().nodes())
          .containsExactly(
              new NodePlacement(
                  "chain", "n0", "ai.onnx::Neg", new Claim.NotApplicable("not a Relu")),
              new NodePlacement("chain", "n1", "ai.onnx::Relu", new Claim.Claimed(true, List.of())),
              new NodePlacement(
                  "chain", "n2", "ai.onnx::Neg", new Claim.NotApplicable("not a Relu")));
      assertThat(view.boundaries()).isEqualTo(1);
    }
  }

  @Test
  void thePlainOnnxRuntimeWayTakesTheSameOptions() throws Exception {
    environment.registerExecutionProviderLibrary("by-hand", relu.library().toString());
    try {
      List<OrtEpDevice> devices =
          environment.getEpDevices().stream()
              .filter(d -> d.getEpName().equals("JavaReluExecutionProvider"))
              .limit(1)
              .toList();
      assertThat(devices).hasSize(1);
      try (var options = new OrtSession.SessionOptions()) {
        options.addExecutionProvider(devices, Map.of("throw-in", "nothing", "fallback", "deny"));
        try (var session = environment.createSession(NEG_RELU_NEG, options)) {
          assertThat(run(session, 1, -2)).containsExactly(-0f, -2);
        }
      }
      try (var options = new OrtSession.SessionOptions()) {
        options.addExecutionProvider(devices, Map.of("throw-out", "nothing"));
        assertThatThrownBy(() -> environment.createSession(NEG_RELU_NEG, options))
            .isInstanceOf(OrtException.class)
            .hasMessageContaining(
                "[options.unknown-key] unknown option 'throw-out'; valid options are fallback,"
                    + " throw-in");
      }
    } finally {
      environment.unregisterExecutionProviderLibrary("by-hand");
    }
  }

  @Test
  void badOptionsAreRefusedBeforeAnySessionExists() throws Exception {
    try (var options = new OrtSession.SessionOptions()) {
      assertThatThrownBy(() -> relu.register(environment, options, Map.of("fallback", "sometimes")))
          .isInstanceOf(EpException.class)
          .hasMessage("option fallback: 'sometimes' is not valid; use one of deny, allow");
      assertThatThrownBy(() -> relu.register(environment, options, Map.of("fall-back", "deny")))
          .hasMessageContaining("unknown option 'fall-back'");
    }
  }

  @Test
  void anUnknownProviderIsAnErrorThatListsTheKnownOnes() {
    assertThatThrownBy(() -> ExecutionProviders.require("Nothing"))
        .isInstanceOf(EpException.class)
        .hasMessageContaining("no execution provider 'Nothing'")
        .hasMessageContaining("JavaRelu");
  }

  @Test
  void registrationsAndSessionsCloseInAnyOrderAndTwice() throws Exception {
    var firstOptions = new OrtSession.SessionOptions();
    var secondOptions = new OrtSession.SessionOptions();
    Registration first = relu.register(environment, firstOptions, Map.of());
    Registration second = relu.register(environment, secondOptions, Map.of());
    OrtSession a = environment.createSession(NEG_RELU_NEG, firstOptions);
    OrtSession b = environment.createSession(NEG_RELU_NEG, secondOptions);
    assertThat(first.sessions()).hasSize(1);
    first.close();
    first.close();
    firstOptions.close();
    assertThat(run(a, 1)).containsExactly(-0f);
    assertThat(first.sessions()).as("open sessions outlive their registration").hasSize(1);
    a.close();
    assertThat(first.sessions()).isEmpty();
    assertThat(run(b, -1)).containsExactly(-1);
    second.close();
    assertThatThrownBy(() -> environment.createSession(NEG_RELU_NEG, secondOptions))
        .hasMessageContaining("[registration.closed]");
    secondOptions.close();
    b.close();
    assertThat(second.sessions()).isEmpty();
  }

  @Test
  void concurrentRunsOfTwoSessionsReachABoundaryOnlyWhenIdle() throws Exception {
    int threads = 4;
    int runsPerThread = 50;
    try (var options = new OrtSession.SessionOptions();
        var registration = relu.register(environment, options, Map.of());
        var first = environment.createSession(NEG_RELU_NEG, options);
        var second = environment.createSession(NEG_RELU_NEG, options);
        var pool = Executors.newFixedThreadPool(threads)) {
      List<Callable<Boolean>> tasks = new ArrayList<>();
      for (int t = 0; t < threads; t++) {
        OrtSession session = t % 2 == 0 ? first : second;
        float x = t;
        tasks.add(
            () -> {
              for (int i = 0; i < runsPerThread; i++) {
                assertThat(run(session, x, -x - 1)).containsExactly(-0f, -x - 1);
              }
              return true;
            });
      }
      for (Future<Boolean> result : pool.invokeAll(tasks)) {
        assertThat(result.get()).isTrue();
      }
      assertThat(registration.sessions())
          .allSatisfy(view -> assertThat(view.boundaries()).isBetween(1L, 2L * runsPerThread));
    }
  }
}
