package dev.expertbank.tests.session;

import static dev.expertbank.tests.session.SmallQMoe.ENVIRONMENT;
import static dev.expertbank.tests.session.SmallQMoe.EXPERTS;
import static dev.expertbank.tests.session.SmallQMoe.HIDDEN;
import static dev.expertbank.tests.session.SmallQMoe.node;
import static dev.expertbank.tests.session.SmallQMoe.rows;
import static dev.expertbank.tests.session.SmallQMoe.weights;
import static org.assertj.core.api.Assertions.assertThat;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OnnxTensorLike;
import ai.onnxruntime.OrtSession;
import dev.expertbank.model.OnnxModelBuilder;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.TensorShape;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** QMoE in the bodies of If and Loop, with weights in the outer graph. */
class SubgraphTest {
  private static final float[][] X = SmallQMoe.tokens(3, 1);

  private final float[][] router = new float[3][EXPERTS];

  SubgraphTest() {
    for (int t = 0; t < router.length; t++) {
      for (int e = 0; e < EXPERTS; e++) {
        router[t][e] = (t * 5 + e * 3) % 7;
      }
    }
  }

  @Test
  void anIfBodyRunsOnTheProviderAndIsPartOfItsRun() throws Exception {
    OnnxModelBuilder then =
        node(OnnxModelBuilder.named("then"), "x", "router", "then_y")
            .output("then_y", ElementType.FLOAT, rows(HIDDEN));
    OnnxModelBuilder orElse =
        OnnxModelBuilder.named("else")
            .node("", "Identity", "same", Map.of(), List.of("x"), List.of("else_y"))
            .output("else_y", ElementType.FLOAT, rows(HIDDEN));
    byte[] model =
        graph()
            .input("condition", ElementType.BOOL)
            .node(
                "",
                "If",
                "branch",
                Map.of(),
                Map.of("then_branch", then, "else_branch", orElse),
                List.of("condition"),
                List.of("y"))
            .toBytes();
    try (var open = SmallQMoe.open(model);
        var condition = OnnxTensor.createTensor(ENVIRONMENT, true)) {
      assertThat(open.registration().sessions().getFirst().placement().claimed()).hasSize(1);
      float[][] y = run(open.session(), Map.of("condition", condition));
      assertThat(y).isDeepEqualTo(plain());
      assertThat(open.registration().sessions().getFirst().boundaries()).isEqualTo(1);
    }
  }

  @Test
  void aLoopBodyReachesOneBoundaryPerRunHoweverOftenItIterates() throws Exception {
    OnnxModelBuilder body =
        node(
                OnnxModelBuilder.named("body")
                    .input("iteration", ElementType.INT64)
                    .input("go_on", ElementType.BOOL)
                    .input("state", ElementType.FLOAT, rows(HIDDEN)),
                "state",
                "router",
                "next_state")
            .node("", "Identity", "keep", Map.of(), List.of("go_on"), List.of("go_on_out"))
            .output("go_on_out", ElementType.BOOL)
            .output("next_state", ElementType.FLOAT, rows(HIDDEN));
    byte[] model =
        graph()
            .initializer("iterations", ElementType.INT64, TensorShape.of(), int64(3))
            .initializer("start", ElementType.BOOL, TensorShape.of(), new byte[] {1})
            .node(
                "",
                "Loop",
                "loop",
                Map.of(),
                Map.of("body", body),
                List.of("iterations", "start", "x"),
                List.of("y"))
            .toBytes();
    try (var open = SmallQMoe.open(model)) {
      var view = open.registration().sessions().getFirst();
      assertThat(view.placement().claimed()).hasSize(1);
      float[][] y = run(open.session(), Map.of());
      assertThat(view.boundaries()).isEqualTo(1);
      assertThat(run(open.session(), Map.of())).isDeepEqualTo(y);
      assertThat(view.boundaries()).isEqualTo(2);
      assertThat(y).isDeepEqualTo(plain(plain(plain(X))));
    }
  }

  private static OnnxModelBuilder graph() {
    return weights(OnnxModelBuilder.named("outer"))
        .input("x", ElementType.FLOAT, rows(HIDDEN))
        .input("router", ElementType.FLOAT, rows(EXPERTS))
        .output("y", ElementType.FLOAT, rows(HIDDEN));
  }

  private float[][] plain() throws Exception {
    return plain(X);
  }

  /** The same node at the top level of a model. */
  private float[][] plain(float[][] x) throws Exception {
    byte[] model = node(graph(), "x", "router", "y").toBytes();
    try (var open = SmallQMoe.open(model)) {
      return run(open.session(), x, Map.of());
    }
  }

  private float[][] run(OrtSession session, Map<String, OnnxTensor> more) throws Exception {
    return run(session, X, more);
  }

  private float[][] run(OrtSession session, float[][] x, Map<String, OnnxTensor> more)
      throws Exception {
    Map<String, OnnxTensorLike> feeds = new HashMap<>(more);
    try (OnnxTensor input = OnnxTensor.createTensor(ENVIRONMENT, x);
        OnnxTensor logits = OnnxTensor.createTensor(ENVIRONMENT, router)) {
      feeds.put("x", input);
      feeds.put("router", logits);
      try (OrtSession.Result result = session.run(feeds)) {
        return (float[][]) result.get(0).getValue();
      }
    }
  }

  private static byte[] int64(long value) {
    return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(value).array();
  }
}
