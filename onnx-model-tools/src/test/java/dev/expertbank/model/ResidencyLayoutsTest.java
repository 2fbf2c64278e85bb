package dev.expertbank.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.simulation.RouteTrace;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.qmoe.RoutingSemantics;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ResidencyLayoutsTest {
  @TempDir private Path directory;

  @ParameterizedTest
  @CsvSource({
    "swiglu, 1, false, true, true, 4, 32",
    "silu, 0, true, false, false, 8, 0",
    "relu, 0, false, true, false, 2, 16"
  })
  void aSyntheticModelHasTheLayoutOfTheFileThatIsWritten(
      String activation,
      int fusion,
      boolean fc3,
      boolean biases,
      boolean zeroPoints,
      int bits,
      int blockSize) {
    SyntheticModel model =
        SyntheticModel.builder()
            .geometry(64, 96, 3, 2)
            .layers(2)
            .activation(activation, fusion, fc3)
            .quantization(bits, blockSize)
            .biases(biases)
            .zeroPoints(zeroPoints)
            .types(ElementType.FLOAT16, ElementType.FLOAT)
            .build();
    Path file = directory.resolve("m.onnx");
    SyntheticModelWriter.write(model, file, false, SyntheticModelWriter.Progress.NONE);
    ResidencyLayout written =
        ResidencyLayouts.of(QMoeNode.of(OnnxModelReader.read(file), RoutingSemantics.ORT_CPU));

    assertThat(ResidencyLayouts.of(model).layers()).isEqualTo(written.layers()).hasSize(2);
  }

  @Test
  void anExpertOfGptOssTakesWhatItsTensorsTake() {
    ResidencyLayout layout =
        ResidencyLayouts.of(ModelGeometry.named("gpt-oss-20b").orElseThrow().synthetic().build());

    // Three matrices of 2880 x 2880 in 4 bits with a float per 32 weights, and 3 x 2880 biases.
    long matrix = 2880 * 2880 / 2 + 2880 * 2880 / 32 * 4;
    assertThat(layout.layer(0).expertBytes()).isEqualTo(3 * matrix + 3 * 2880 * 4);
    assertThat(layout.layers()).hasSize(24);
  }

  private static RouteTrace trace(List<Integer> experts, List<Integer> topK) {
    return new RouteTrace(experts, topK, List.of());
  }

  @Test
  void aTraceOfAnotherModelIsNamedWithTheFirstDifference() {
    ResidencyLayout layout = ResidencyLayouts.of(trace(List.of(8, 8), List.of(2, 2)), 4096);

    ResidencyLayouts.check(trace(List.of(8, 8), List.of(2, 2)), layout, "m");
    assertRefused(trace(List.of(8), List.of(2)), layout, "1 layers of experts; m has 2");
    assertRefused(
        trace(List.of(8, 8), List.of(2, 4)),
        layout,
        "layer 1 of the trace routes to 4 of 8 experts; that of m to 2 of 8");
    assertRefused(trace(List.of(9, 8), List.of(2, 2)), layout, "layer 0");
  }

  private static void assertRefused(RouteTrace trace, ResidencyLayout layout, String detail) {
    assertThatThrownBy(() -> ResidencyLayouts.check(trace, layout, "m"))
        .isInstanceOfSatisfying(
            EpException.class, e -> assertThat(e.code()).isEqualTo("trace.model"))
        .hasMessageContaining(detail);
  }
}
