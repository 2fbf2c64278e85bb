package dev.expertbank.model.cli;

import dev.expertbank.model.Dimension;
import dev.expertbank.model.OnnxModelBuilder;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.TensorShape;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/** Models as they are published for CUDA: transposed weights, and no attribute that says so. */
final class CudaExport {
  private static final int HIDDEN = 64;
  private static final int INTER = 128;

  private CudaExport() {}

  /** QMoE nodes with k = 1 and one scale per row, their weights inside the model. */
  static void write(Path file, int nodes, int experts) {
    int weightBytes = experts * HIDDEN * INTER / 2;
    OnnxModelBuilder model =
        OnnxModelBuilder.named("exported for CUDA")
            .input("x", ElementType.FLOAT, Dimension.symbolic("tokens"), Dimension.of(HIDDEN))
            .initializer(
                "w1",
                ElementType.UINT8,
                TensorShape.of(experts, HIDDEN, INTER / 2),
                new byte[weightBytes])
            .initializer(
                "s1",
                ElementType.FLOAT,
                TensorShape.of(experts, INTER),
                new byte[4 * experts * INTER])
            .initializer(
                "w2",
                ElementType.UINT8,
                TensorShape.of(experts, INTER, HIDDEN / 2),
                new byte[weightBytes])
            .initializer(
                "s2",
                ElementType.FLOAT,
                TensorShape.of(experts, HIDDEN),
                new byte[4 * experts * HIDDEN]);
    for (int node = 0; node < nodes; node++) {
      model.node(
          "com.microsoft",
          "QMoE",
          "moe" + node,
          Map.of(),
          List.of("x", "logits" + node, "w1", "s1", "", "w2", "s2"),
          List.of("y" + node));
    }
    model
        .output("y0", ElementType.FLOAT, Dimension.unknown(), Dimension.of(HIDDEN))
        .write(file, false);
  }
}
