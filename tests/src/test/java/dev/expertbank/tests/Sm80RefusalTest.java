package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import ai.onnxruntime.OrtException;
import dev.expertbank.spi.AttributeValue;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Weights in the layout of models exported for CUDA, on a device that does not read them. */
class Sm80RefusalTest {
  @BeforeAll
  static void deviceDoesNotReadThem() {
    assumeFalse(
        TestDevice.supportsSm80(), "the device reads weights in the layout of CUDA exports");
  }

  static Stream<VectorCase> vectors() {
    return Sm80SessionTest.vectors();
  }

  /** So the node itself is in order, in either shape, with and without the attribute. */
  static Stream<RandomCase> randomCases() {
    return Sm80SessionTest.randomCases();
  }

  @ParameterizedTest
  @MethodSource("vectors")
  void unstatedLayoutIsRefusedUnderCudaSemantics(VectorCase vector) {
    assertRefused(vector.node(), Routing.ORT_CUDA);
  }

  @ParameterizedTest
  @MethodSource("vectors")
  void statedLayoutIsRefused(VectorCase vector) {
    MoeNode stated = vector.node().with("weights_prepacked", new AttributeValue.IntValue(1));
    assertRefused(stated, Routing.ORT_CUDA);
    assertRefused(stated, Routing.ORT_CPU_QMOE);
  }

  @ParameterizedTest
  @MethodSource("randomCases")
  void onlyTheDeviceRefusesARandomNode(RandomCase random) {
    assertRefused(random.node(), random.routing());
  }

  private static void assertRefused(MoeNode node, Routing routing) {
    assertThatThrownBy(() -> Sessions.openWithProvider(node, routing, Map.of()))
        .isInstanceOf(OrtException.class)
        .hasMessageContaining("qmoe.layout")
        .hasMessageContaining("which only a CUDA device reads")
        .hasMessageContaining("re-export the model with weights_prepacked=0");
  }
}
