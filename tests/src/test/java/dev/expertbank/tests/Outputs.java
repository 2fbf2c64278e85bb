package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.spi.ElementType;
import java.util.Map;
import java.util.function.DoubleUnaryOperator;

/** Comparison of tensors with expected values. */
final class Outputs {
  private Outputs() {}

  /** What float32 arithmetic may lose, relative to the largest output. */
  private static final double FLOAT_ARITHMETIC = 1e-5;

  /** Absolute; matters where all outputs are next to zero. */
  private static final double LEAST_TOLERANCE = 1e-7;

  /**
   * What a device other than the host may lose by arithmetic and rounding together, relative to the
   * largest output: what the tolerances that are stored in vectors have been made from.
   */
  private static final Map<ElementType, Double> DEVICE_TOLERANCE =
      Map.of(ElementType.FLOAT, 2e-5, ElementType.FLOAT16, 4e-3, ElementType.BFLOAT16, 2e-2);

  /** Fails unless every element differs by no more than the tolerance; a NaN always fails. */
  static void assertClose(String what, TensorData actual, double[] expected, double tolerance) {
    assertClose(what, actual, expected, value -> tolerance);
  }

  /**
   * Fails unless the output is the reference's after float32 arithmetic and a single rounding to
   * the output's type.
   */
  static void assertNearReference(TensorData actual, MoeNode node, Routing routing) {
    ReferenceQMoe.Result reference = ReferenceQMoe.evaluate(node, routing);
    TensorData input = node.required(MoeNode.INPUT);
    double rounding =
        switch (input.type()) {
          case FLOAT -> 0x1p-24;
          case FLOAT16 -> 0x1p-11;
          case BFLOAT16 -> 0x1p-8;
          default -> throw new IllegalArgumentException("no rounding to " + input.type());
        };
    double arithmetic = Math.max(FLOAT_ARITHMETIC * reference.largestMagnitude(), LEAST_TOLERANCE);
    assertClose(actual, input, reference, value -> rounding * Math.abs(value) + arithmetic);
  }

  /** The same for the output of a session on the test device, whose arithmetic may be another. */
  static void assertNearReferenceOnDevice(TensorData actual, MoeNode node, Routing routing) {
    if (TestDevice.isHost()) {
      assertNearReference(actual, node, routing);
      return;
    }
    ReferenceQMoe.Result reference = ReferenceQMoe.evaluate(node, routing);
    TensorData input = node.required(MoeNode.INPUT);
    double relative = DEVICE_TOLERANCE.getOrDefault(input.type(), Double.NaN);
    double tolerance = Math.max(relative * reference.largestMagnitude(), LEAST_TOLERANCE);
    assertClose(actual, input, reference, value -> tolerance);
  }

  private static void assertClose(
      TensorData actual,
      TensorData input,
      ReferenceQMoe.Result reference,
      DoubleUnaryOperator toleranceAt) {
    assertThat(actual.type()).isEqualTo(input.type());
    assertThat(actual.shape()).isEqualTo(input.shape());
    assertClose(
        "the reference",
        actual,
        reference.output().stream().mapToDouble(Double::doubleValue).toArray(),
        toleranceAt);
  }

  private static void assertClose(
      String what, TensorData actual, double[] expected, DoubleUnaryOperator toleranceAt) {
    assertThat(actual.elements()).as("elements against %s", what).isEqualTo(expected.length);
    for (int i = 0; i < expected.length; i++) {
      double value = actual.get(i);
      assertThat(Math.abs(value - expected[i]))
          .as("element %d is %s, %s has %s", i, value, what, expected[i])
          .isLessThanOrEqualTo(toleranceAt.applyAsDouble(expected[i]));
    }
  }
}
