package dev.expertbank.tests;

import java.util.List;
import java.util.Map;

/** What the vectors mean, and the cases where a file alone does not tell. */
final class Vectors {
  /** ONNX Runtime itself misses the tolerance: its gelu is the tanh approximation. */
  private static final Map<String, Double> ORT_TOLERANCE =
      Map.of("MoETest_Gelu__cpu", 1.1e-3, "MoETest_Gelu__cuda", 1.1e-3);

  private Vectors() {}

  static boolean expectsOrtCpu(VectorCase vector) {
    return vector.executionProvider().equals("CPUExecutionProvider");
  }

  /** Whether the weights are in the byte layout of {@link Sm80Layout}; no attribute says so. */
  static boolean isSm80(VectorCase vector) {
    return vector.name().equals("QMoETest_Mixtral_Int4__cuda");
  }

  /** The case's node with plain weights, as {@link ReferenceQMoe} reads them. */
  static MoeNode plain(VectorCase vector) {
    return isSm80(vector) ? Sm80Layout.plain(vector.node()) : vector.node();
  }

  static Routing routing(VectorCase vector) {
    if (vector.executionProvider().equals("CUDAExecutionProvider")) {
      return Routing.ORT_CUDA;
    }
    return vector.node().quantized() ? Routing.ORT_CPU_QMOE : Routing.ORT_CPU_MOE;
  }

  /** What the provider may differ: what is stored, of which the host device needs but half. */
  static double tolerance(VectorCase vector) {
    return TestDevice.isHost() ? vector.tolerance() / 2 : vector.tolerance();
  }

  static double ortTolerance(VectorCase vector) {
    return ORT_TOLERANCE.getOrDefault(vector.name(), vector.tolerance());
  }

  /** The weight that an external-data model of the case puts at an odd offset; varies by case. */
  static int oddSlot(VectorCase vector) {
    List<Integer> weights = vector.node().weightSlots();
    return weights.get(Math.floorMod(vector.name().hashCode(), weights.size()));
  }
}
