package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Proves the model builder and {@link ReferenceQMoe} against ONNX Runtime's own CPU kernels, on the
 * cases that expect them.
 */
class StockOnnxRuntimeTest {
  private static final OrtEnvironment ENVIRONMENT = Sessions.ENVIRONMENT;

  static Stream<VectorCase> successes() {
    return VectorCase.where(VectorCase.Expect.SUCCESS).filter(Vectors::expectsOrtCpu);
  }

  static Stream<VectorCase> failures() {
    return VectorCase.where(VectorCase.Expect.FAILURE).filter(Vectors::expectsOrtCpu);
  }

  @ParameterizedTest
  @MethodSource("successes")
  void inlineModelGivesTheStoredOutput(VectorCase vector) throws OrtException {
    try (var options = new OrtSession.SessionOptions();
        var session = ENVIRONMENT.createSession(OnnxModels.inline(vector.node()), options)) {
      check(vector, Sessions.run(session, vector.node()));
    }
  }

  @ParameterizedTest
  @MethodSource("successes")
  void externalModelGivesTheStoredOutput(VectorCase vector, @TempDir Path directory)
      throws OrtException {
    Path model = OnnxModels.external(vector.node(), directory, Vectors.oddSlot(vector));
    try (var options = new OrtSession.SessionOptions();
        var session = ENVIRONMENT.createSession(model.toString(), options)) {
      check(vector, Sessions.run(session, vector.node()));
    }
  }

  @ParameterizedTest
  @MethodSource("failures")
  void failsWithTheStoredMessage(VectorCase vector) {
    assertThatThrownBy(
            () -> {
              try (var options = new OrtSession.SessionOptions();
                  var session =
                      ENVIRONMENT.createSession(OnnxModels.inline(vector.node()), options)) {
                Sessions.run(session, vector.node());
              }
            })
        .isInstanceOf(OrtException.class)
        .hasMessageContaining(vector.errorSubstring());
  }

  private static void check(VectorCase vector, TensorData output) {
    List<Double> reference =
        ReferenceQMoe.evaluate(vector.node(), Vectors.routing(vector)).output();
    double tolerance = Vectors.ortTolerance(vector);
    TensorData stored = vector.output().orElseThrow();
    assertThat(output.shape()).isEqualTo(stored.shape());
    assertThat(output.type()).isEqualTo(stored.type());
    Outputs.assertClose("the stored output", output, stored.values(), tolerance);
    Outputs.assertClose(
        "the reference",
        output,
        reference.stream().mapToDouble(Double::doubleValue).toArray(),
        tolerance);
  }
}
