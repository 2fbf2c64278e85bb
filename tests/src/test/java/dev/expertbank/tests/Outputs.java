package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThat;

/** Comparison of tensors with expected values. */
final class Outputs {
  private Outputs() {}

  /** Fails unless every element differs by no more than the tolerance; a NaN always fails. */
  static void assertClose(String what, TensorData actual, double[] expected, double tolerance) {
    assertThat(actual.elements()).as("elements against %s", what).isEqualTo(expected.length);
    for (int i = 0; i < expected.length; i++) {
      double value = actual.get(i);
      assertThat(Math.abs(value - expected[i]))
          .as("element %d is %s, %s has %s", i, value, what, expected[i])
          .isLessThanOrEqualTo(tolerance);
    }
  }

  /**
   * Fails unless the output is as near to the reference as float32 arithmetic with one rounding to
   * the output's type gets, relative to the largest output.
   */
  static void assertNearReference(TensorData actual, MoeNode node, Routing routing) {
    ReferenceQMoe.Result reference = ReferenceQMoe.evaluate(node, routing);
    TensorData input = node.required(MoeNode.INPUT);
    double relative =
        switch (input.type()) {
          case FLOAT -> 1e-5;
          case FLOAT16 -> 1e-3;
          case BFLOAT16 -> 8e-3;
          default -> throw new IllegalArgumentException("no tolerance for " + input.type());
        };
    assertThat(actual.type()).isEqualTo(input.type());
    assertThat(actual.shape()).isEqualTo(input.shape());
    assertClose(
        "the reference",
        actual,
        reference.output().stream().mapToDouble(Double::doubleValue).toArray(),
        Math.max(relative * reference.largestMagnitude(), 1e-6));
  }
}
