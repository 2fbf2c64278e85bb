package dev.expertbank.tests.host;

import static org.assertj.core.api.Assertions.assertThat;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtSession;
import dev.expertbank.api.ExecutionProviders;
import java.util.Map;
import org.junit.jupiter.api.Test;

class HostTest {
  private final OrtEnvironment environment = OrtEnvironment.getEnvironment();

  @Test
  void aProviderThatIsNotQMoeRunsItsNodes() throws Exception {
    try (var options = new OrtSession.SessionOptions();
        var registration =
            ExecutionProviders.require("JavaRelu").register(environment, options, Map.of());
        var session = environment.createSession(SmallModels.chain("Neg", "Relu", "Neg"), options)) {
      assertThat(run(session, 1, -2, 3)).containsExactly(-0f, -2, -0f);
      var view = registration.sessions().getFirst();
      assertThat(view.placement().claimed()).hasSize(1);
      assertThat(view.placement().nodes()).hasSize(3);
      assertThat(view.boundaries()).isEqualTo(1);
    }
  }

  private float[] run(OrtSession session, float... x) throws Exception {
    try (OnnxTensor input = OnnxTensor.createTensor(environment, x);
        OrtSession.Result result = session.run(Map.of("x", input))) {
      return (float[]) result.get(0).getValue();
    }
  }
}
