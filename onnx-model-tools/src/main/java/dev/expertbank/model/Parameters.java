package dev.expertbank.model;

import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.qmoe.QMoeInput;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.QMoeSpec;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Counts the parameters of a model. */
public final class Parameters {
  private Parameters() {}

  /**
   * Elements of all initializers, where the packed weights of QMoE nodes count one by one and their
   * scales and zero points do not count. Data that several initializers share counts once.
   *
   * @param nodes the QMoE nodes of the model
   * @throws ArithmeticException if the number does not fit a {@code long}
   */
  public static long count(OnnxModel model, List<QMoeNode> nodes) {
    Map<ConstantData, Integer> weightsPerElement = new HashMap<>();
    for (QMoeNode node : nodes) {
      if (node.reading() instanceof QMoeReading.Supported(QMoeSpec spec, List<String> _)) {
        spec.tensors().forEach(t -> record(weightsPerElement, node, spec, t.input()));
      }
    }
    Set<ConstantData> seen = new HashSet<>();
    return model
        .initializers()
        .filter(i -> seen.add(i.data()))
        .mapToLong(
            i ->
                Math.multiplyExact(
                    i.shape().elementCount(), (long) weightsPerElement.getOrDefault(i.data(), 1)))
        .reduce(0, Math::addExact);
  }

  private static void record(
      Map<ConstantData, Integer> weightsPerElement, QMoeNode node, QMoeSpec spec, QMoeInput input) {
    int weights =
        switch (input.role()) {
          case WEIGHTS -> spec.pack();
          case SCALES, ZERO_POINTS -> 0;
          default -> 1;
        };
    node.node()
        .input(input.slot())
        .flatMap(value -> value.constant())
        .ifPresent(data -> weightsPerElement.put(data, weights));
  }
}
