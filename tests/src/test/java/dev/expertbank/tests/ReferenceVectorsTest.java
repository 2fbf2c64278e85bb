package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.expertbank.spi.ElementType;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Proves {@link ReferenceQMoe} against the double-precision results that vectors carry. */
class ReferenceVectorsTest {
  /** Half a unit of the ninth significant digit, relative to the smallest nine-digit mantissa. */
  private static final double STORED_DIGITS = 5.0001e-9;

  /**
   * The stored results rounded {@code scale * (q - zero point)} to float32, which is exact for
   * float16 scales only.
   */
  private static final double FLOAT_WEIGHTS = 2e-7;

  /** Allowance for the order of double-precision sums. */
  private static final double DOUBLE_ROUNDING = 1e-13;

  static Stream<VectorCase> withReference() {
    return VectorCase.all().stream().filter(c -> c.referenceOutput().isPresent());
  }

  @ParameterizedTest
  @MethodSource("withReference")
  void choosesTheStoredExpertsWithTheStoredWeights(VectorCase vector) {
    Routing routing = Vectors.routing(vector);
    List<List<Route>> actual = ReferenceQMoe.evaluate(vector.node(), routing).routes();

    List<List<Route>> stored = vector.referenceRoutes().orElseThrow();
    assertThat(actual).hasSameSizeAs(stored);
    for (int row = 0; row < stored.size(); row++) {
      List<Route> expected = stored.get(row).stream().filter(routing::contributes).toList();
      assertThat(actual.get(row)).hasSameSizeAs(expected);
      for (int i = 0; i < expected.size(); i++) {
        Route route = actual.get(row).get(i);
        assertThat(route.expert()).as("row %d", row).isEqualTo(expected.get(i).expert());
        assertAgrees(
            route.weight(), expected.get(i).weight(), DOUBLE_ROUNDING, "weight, row " + row);
      }
    }
  }

  @ParameterizedTest
  @MethodSource("withReference")
  void givesTheStoredOutput(VectorCase vector) {
    ReferenceQMoe.Result result = ReferenceQMoe.evaluate(vector.node(), Vectors.routing(vector));

    List<Double> stored = vector.referenceOutput().orElseThrow();
    assertThat(result.output()).hasSameSizeAs(stored);
    boolean weightsWereRounded =
        vector.node().quantized() && vector.node().required(3).type() == ElementType.FLOAT;
    double allowance =
        (weightsWereRounded ? FLOAT_WEIGHTS : DOUBLE_ROUNDING) * result.largestMagnitude();
    for (int i = 0; i < stored.size(); i++) {
      assertAgrees(result.output().get(i), stored.get(i), allowance, "element " + i);
    }
  }

  static Stream<VectorCase> upstreamLiterals() {
    return VectorCase.where(VectorCase.Expect.SUCCESS).filter(c -> c.referenceOutput().isEmpty());
  }

  @ParameterizedTest
  @MethodSource("upstreamLiterals")
  void givesTheUpstreamLiteral(VectorCase vector) {
    ReferenceQMoe.Result result =
        ReferenceQMoe.evaluate(Vectors.plain(vector), Vectors.routing(vector));

    double[] literal = vector.output().orElseThrow().values();
    assertThat(result.output()).hasSize(literal.length);
    for (int i = 0; i < literal.length; i++) {
      assertThat(result.output().get(i))
          .as("element %d", i)
          .isCloseTo(literal[i], within(Vectors.ortTolerance(vector)));
    }
  }

  private static void assertAgrees(double actual, double stored, double allowance, String what) {
    assertThat(actual)
        .as(what)
        .isCloseTo(stored, within(STORED_DIGITS * Math.abs(stored) + allowance));
  }
}
