package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ai.onnxruntime.OrtException;
import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.Claim;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Every vector in a session with the QMoE provider on the test device, but for those in the layout
 * of CUDA exports, which are in {@link Sm80SessionTest}.
 */
class ProviderVectorsTest {
  /** QMoE cases that the provider must refuse, with the code; all others must run and match. */
  private static final Map<String, String> REFUSED =
      Map.of(
          // ONNX Runtime's CPU kernel has no fc3; here a fused fc1 and an fc3 contradict each
          // other.
          "QMoETest_CPU_FC3_Error__cpu", "qmoe.fc3",
          "QMoETest_CPU_Int2_InvalidHiddenSize__cpu", "qmoe.shape",
          "QMoETest_CPU_KExceedsNumExperts__cpu", "qmoe.k",
          "oracle_QMoE_ERR_fc1_multi_fc2_single_2d_scales", "qmoe.scales",
          "oracle_QMoE_ERR_k_zero", "qmoe.k",
          "oracle_QMoE_ERR_sparse_mixer_k1", "qmoe.attr",
          "oracle_QMoE_ERR_swiglu_fusion0", "qmoe.fc3",
          // ONNX Runtime's CPU kernel ignores the attribute, whatever the bytes are.
          "oracle_QMoE_weights_prepacked1_ignored_on_cpu_int4_block16_f32", "qmoe.layout");

  /**
   * Cases of the operator MoE that only ONNX Runtime's CUDA provider runs; the provider is not for
   * them either, so no session on a CPU says anything. The reference is checked on all of them.
   */
  private static final Map<String, String> NEEDS_ORT_CUDA =
      Map.of(
          "MoETest_Mixtral__cuda", "fc3 is not implemented by the CPU kernel of MoE",
          "MoETest_Gelu__cuda", "same node as MoETest_Gelu__cpu",
          "MoETest_Relu__cuda", "same node as MoETest_Relu__cpu");

  static Stream<VectorCase> accepted() {
    return qmoe().filter(c -> !REFUSED.containsKey(c.name()) && !Vectors.isSm80(c));
  }

  static Stream<VectorCase> refused() {
    return qmoe().filter(c -> REFUSED.containsKey(c.name()));
  }

  static Stream<VectorCase> moeSuccesses() {
    return moe().filter(c -> c.expect() == VectorCase.Expect.SUCCESS);
  }

  static Stream<VectorCase> moeFailures() {
    return moe().filter(c -> c.expect() == VectorCase.Expect.FAILURE);
  }

  private static Stream<VectorCase> qmoe() {
    return VectorCase.all().stream().filter(c -> c.node().quantized());
  }

  private static Stream<VectorCase> moe() {
    return VectorCase.all().stream()
        .filter(c -> !c.node().quantized() && !NEEDS_ORT_CUDA.containsKey(c.name()));
  }

  @ParameterizedTest
  @MethodSource("accepted")
  void inlineModelMatches(VectorCase vector) throws OrtException {
    check(
        vector,
        run(vector, options -> Sessions.ENVIRONMENT.createSession(inline(vector), options)));
  }

  @ParameterizedTest
  @MethodSource("accepted")
  void externalModelMatches(VectorCase vector, @TempDir Path directory) throws OrtException {
    Path model = OnnxModels.external(node(vector), directory, Vectors.oddSlot(vector));
    check(
        vector,
        run(vector, options -> Sessions.ENVIRONMENT.createSession(model.toString(), options)));
  }

  static Stream<MatrixVector> matrices() {
    return MatrixVector.all();
  }

  @ParameterizedTest
  @MethodSource("matrices")
  void plainMatrixIsReadOff(MatrixVector matrix) throws OrtException {
    MoeNode node = matrix.node(false, matrix.oneHotRows());
    Sessions.ProviderRun run =
        Sessions.runWithProvider(
            node,
            Routing.ORT_CUDA,
            Map.of(),
            o -> Sessions.ENVIRONMENT.createSession(OnnxModels.inline(node), o));
    assertThat(run.claim()).isInstanceOf(Claim.Claimed.class);
    Outputs.assertClose("the matrix", run.output(), matrix.readOff(), 0);
  }

  @ParameterizedTest
  @MethodSource("refused")
  void sessionCreationFailsWithTheReason(VectorCase vector) {
    String code = REFUSED.get(vector.name());
    assertThatThrownBy(
            () ->
                Sessions.openWithProvider(
                    vector.node(), Vectors.routing(vector), vector.sessionConfig()))
        .isInstanceOf(OrtException.class)
        .hasMessageContaining(code);
  }

  @ParameterizedTest
  @MethodSource("moeSuccesses")
  void unquantisedNodeIsLeftToOnnxRuntime(VectorCase vector) throws OrtException {
    Sessions.ProviderRun run =
        run(vector, options -> Sessions.ENVIRONMENT.createSession(inline(vector), options));
    assertThat(run.claim()).isInstanceOf(Claim.NotApplicable.class);
    Outputs.assertClose(
        "the stored output",
        run.output(),
        vector.output().orElseThrow().values(),
        Vectors.ortTolerance(vector));
  }

  @ParameterizedTest
  @MethodSource("moeFailures")
  void unquantisedNodeFailsAsInOnnxRuntime(VectorCase vector) {
    assertThatThrownBy(
            () -> run(vector, o -> Sessions.ENVIRONMENT.createSession(inline(vector), o)))
        .isInstanceOf(OrtException.class)
        .hasMessageContaining(vector.errorSubstring());
  }

  /** In a model for the CPU, an absent attribute means plain rows, which the report says. */
  @Test
  void plainRowsAreANotedAssumptionUnderCpuSemantics() throws OrtException {
    VectorCase vector = Sm80SessionTest.vectors().findFirst().orElseThrow();
    Sessions.ProviderRun run =
        Sessions.runWithProvider(
            vector.node(),
            Routing.ORT_CPU_QMOE,
            vector.sessionConfig(),
            o -> Sessions.ENVIRONMENT.createSession(inline(vector), o));

    assertThat(run.claim()).isInstanceOf(Claim.Claimed.class);
    assertThat(((Claim.Claimed) run.claim()).notes())
        .anySatisfy(note -> assertThat(note).contains("re-export it with weights_prepacked=0"));
  }

  @Test
  void everyVectorHasItsPlaceHere() {
    assertThat(
            Stream.of(
                    accepted(), refused(), moeSuccesses(), moeFailures(), Sm80SessionTest.vectors())
                .flatMap(cases -> cases.map(VectorCase::name)))
        .doesNotHaveDuplicates()
        .doesNotContainAnyElementsOf(NEEDS_ORT_CUDA.keySet())
        .hasSize(VectorCase.all().size() - NEEDS_ORT_CUDA.size());
    assertThat(refused()).hasSize(REFUSED.size());
  }

  private static byte[] inline(VectorCase vector) {
    return OnnxModels.inline(node(vector));
  }

  /** The derived case restates a CUDA case in plain rows; this is how a model says so. */
  private static MoeNode node(VectorCase vector) {
    return vector.name().equals("derived_QMoETest_Mixtral_Int4_plain")
        ? vector.node().with("weights_prepacked", new AttributeValue.IntValue(0))
        : vector.node();
  }

  private static Sessions.ProviderRun run(VectorCase vector, Sessions.Opener opener)
      throws OrtException {
    return Sessions.runWithProvider(
        vector.node(), Vectors.routing(vector), vector.sessionConfig(), opener);
  }

  private static void check(VectorCase vector, Sessions.ProviderRun run) {
    assertThat(run.claim()).isInstanceOf(Claim.Claimed.class);
    Outputs.assertNearReferenceOnDevice(run.output(), vector.node(), Vectors.routing(vector));
    double tolerance = Vectors.tolerance(vector);
    vector
        .referenceOutput()
        .ifPresentOrElse(
            reference ->
                Outputs.assertClose(
                    "the stored reference",
                    run.output(),
                    reference.stream().mapToDouble(Double::doubleValue).toArray(),
                    tolerance),
            () ->
                vector
                    .output()
                    .ifPresent(
                        literal ->
                            Outputs.assertClose(
                                "the literal", run.output(), literal.values(), tolerance)));
  }
}
