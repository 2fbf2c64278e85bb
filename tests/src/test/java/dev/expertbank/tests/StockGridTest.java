package dev.expertbank.tests;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.expertbank.spi.ElementType;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Proves {@link ReferenceQMoe} on random nodes, as far as ONNX Runtime's CPU kernel supports them
 * and is exact.
 */
class StockGridTest {
  private static final OrtEnvironment ENVIRONMENT = Sessions.ENVIRONMENT;

  /** About one in seven is supported. */
  private static final int CANDIDATES = 1000;

  static Stream<RandomCase> supportedByStock() {
    return LongStream.range(0, CANDIDATES)
        .mapToObj(RandomCase::of)
        .filter(StockGridTest::supported);
  }

  @ParameterizedTest
  @MethodSource("supportedByStock")
  void agreesWithTheReference(RandomCase random) throws OrtException {
    try (var options = new OrtSession.SessionOptions();
        var session = ENVIRONMENT.createSession(OnnxModels.inline(random.node()), options)) {
      Outputs.assertNearReference(
          Sessions.run(session, random.node()), random.node(), random.routing());
    }
  }

  private static boolean supported(RandomCase random) {
    MoeNode node = random.node();
    boolean swiglu = node.text("activation_type", "relu").equals("swiglu");
    return random.routing() == Routing.ORT_CPU_QMOE
        && node.required(MoeNode.INPUT).type() != ElementType.BFLOAT16
        && node.required(3).type() != ElementType.BFLOAT16
        && node.input(8).isEmpty()
        && (!swiglu || node.integer("swiglu_fusion", 0) == 1)
        && fc2IsBlockWiseOnlyIfFc1Is(node)
        && !quantisesOnceMore(node)
        && !readsZeroPointsOfAnotherPlace(node);
  }

  private static boolean fc2IsBlockWiseOnlyIfFc1Is(MoeNode node) {
    return blocks(node, 3) > 1 || blocks(node, 6) == 1;
  }

  private static boolean quantisesOnceMore(MoeNode node) {
    return node.integer("expert_weight_bits", 4) == 4
        && node.input(11).isPresent() != node.input(12).isPresent();
  }

  /**
   * In a block-wise node whose fc2 has a single block, the kernel takes fc2's zero points, {@code
   * [experts, hidden, 1]}, as packed along the rows.
   */
  private static boolean readsZeroPointsOfAnotherPlace(MoeNode node) {
    return node.integer("expert_weight_bits", 4) < 8
        && blocks(node, 3) > 1
        && blocks(node, 6) == 1
        && node.input(12).isPresent();
  }

  private static int blocks(MoeNode node, int scaleSlot) {
    TensorData scales = node.required(scaleSlot);
    return scales.rank() == 3 ? scales.dimension(2) : 1;
  }
}
