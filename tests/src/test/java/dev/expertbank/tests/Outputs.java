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
}
