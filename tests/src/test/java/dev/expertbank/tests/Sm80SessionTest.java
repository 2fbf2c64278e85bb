package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThat;

import ai.onnxruntime.OrtException;
import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.Claim;
import java.nio.file.Path;
import java.util.Map;
import java.util.Random;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Weights in the layout of models exported for CUDA, on a device that reads them. */
class Sm80SessionTest {
  private static final int RANDOM_CASES = 150;

  @BeforeAll
  static void deviceReadsThem() {
    TestDevice.assumeSm80();
  }

  static Stream<VectorCase> vectors() {
    return VectorCase.all().stream().filter(Vectors::isSm80);
  }

  static Stream<MatrixVector> matrices() {
    return MatrixVector.all();
  }

  static Stream<RandomCase> randomCases() {
    return LongStream.range(0, RANDOM_CASES).mapToObj(RandomCase::sm80);
  }

  /** As the upstream test has it: nothing says that the weights are in that layout. */
  @ParameterizedTest
  @MethodSource("vectors")
  void unstatedLayoutMatches(VectorCase vector, @TempDir Path directory) throws OrtException {
    Path model = OnnxModels.external(vector.node(), directory, Vectors.oddSlot(vector));
    check(vector, Routing.ORT_CUDA, o -> Sessions.ENVIRONMENT.createSession(model.toString(), o));
  }

  /** Its routing weights are normalised, so that both routings are one. */
  @ParameterizedTest
  @MethodSource("vectors")
  void statedLayoutMatches(VectorCase vector) throws OrtException {
    byte[] model =
        OnnxModels.inline(vector.node().with("weights_prepacked", new AttributeValue.IntValue(1)));
    check(vector, Routing.ORT_CPU_QMOE, o -> Sessions.ENVIRONMENT.createSession(model, o));
  }

  private static void check(VectorCase vector, Routing routing, Sessions.Opener opener)
      throws OrtException {
    Sessions.ProviderRun run =
        Sessions.runWithProvider(vector.node(), routing, vector.sessionConfig(), opener);
    assertThat(run.claim()).isInstanceOf(Claim.Claimed.class);
    Outputs.assertNearReferenceOnDevice(run.output(), Vectors.plain(vector), routing);
    Outputs.assertClose(
        "the literal",
        run.output(),
        vector.output().orElseThrow().values(),
        Vectors.tolerance(vector));
  }

  @ParameterizedTest
  @MethodSource("matrices")
  void aMatrixIsReadOff(MatrixVector matrix) throws OrtException {
    Sessions.ProviderRun run = run(matrix.node(true, matrix.oneHotRows()), Routing.ORT_CUDA);
    Outputs.assertClose("the matrix", run.output(), matrix.readOff(), 0);
  }

  /** As many tokens as decoding has, and more. */
  @ParameterizedTest
  @MethodSource("matrices")
  void aMatrixIsMultipliedByAFewTokens(MatrixVector matrix) throws OrtException {
    for (int tokens = 1; tokens <= 9; tokens++) {
      double[] rows = new Random(tokens).doubles((long) tokens * matrix.inputs(), -1, 1).toArray();
      Sessions.ProviderRun run = run(matrix.node(true, rows), Routing.ORT_CUDA);
      Outputs.assertNearReferenceOnDevice(run.output(), matrix.node(false, rows), Routing.ORT_CUDA);
    }
  }

  @ParameterizedTest
  @MethodSource("randomCases")
  void aRandomNodeMatchesTheReference(RandomCase random, @TempDir Path directory)
      throws OrtException {
    Path model = OnnxModels.external(random.node(), directory, random.oddSlot());
    Sessions.ProviderRun run =
        Sessions.runWithProvider(
            random.node(),
            random.routing(),
            Map.of(),
            o -> Sessions.ENVIRONMENT.createSession(model.toString(), o));
    assertThat(run.claim()).isInstanceOf(Claim.Claimed.class);
    Outputs.assertNearReferenceOnDevice(
        run.output(), Sm80Layout.plain(random.node()), random.routing());
  }

  private static Sessions.ProviderRun run(MoeNode node, Routing routing) throws OrtException {
    Sessions.ProviderRun run =
        Sessions.runWithProvider(
            node,
            routing,
            Map.of(),
            o -> Sessions.ENVIRONMENT.createSession(OnnxModels.inline(node), o));
    assertThat(run.claim()).isInstanceOf(Claim.Claimed.class);
    return run;
  }
}
