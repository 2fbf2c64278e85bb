package dev.expertbank.model;

import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.simulation.RouteTrace;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.qmoe.QMoeCatalog;
import dev.expertbank.spi.qmoe.QMoeReading.Supported;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.QMoeTensor;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * What residency would know of a model, before it runs. Slots are sized as on the host device with
 * pages of 4096 bytes.
 */
public final class ResidencyLayouts {
  /** What the size of a slot is a multiple of, in bytes. */
  public static final long SLOT_GRANULARITY = 4096;

  private ResidencyLayouts() {}

  /**
   * One layer of residency for each node that is supported, in the same order.
   *
   * @throws EpException {@code qmoe.none} if there is none
   * @throws ArithmeticException if the experts have more than {@link Long#MAX_VALUE} bytes
   */
  public static ResidencyLayout of(List<QMoeNode> nodes) {
    List<LayerLayout> layers = new ArrayList<>();
    for (QMoeNode node : nodes) {
      if (node.reading() instanceof Supported(QMoeSpec spec, List<String> _)) {
        layers.add(layer(spec, node.catalog().orElseThrow()));
      }
    }
    if (layers.isEmpty()) {
      throw new EpException(
          "qmoe.none", "the model has no " + QMoeNode.TYPE + " node that is supported");
    }
    return new ResidencyLayout(layers);
  }

  private static LayerLayout layer(QMoeSpec spec, QMoeCatalog catalog) {
    return catalog.obstacles().stream()
        .findFirst()
        .map(
            obstacle ->
                LayerLayout.nonPageable(
                    spec.experts(), spec.topK(), spec.bytesPerExpert(), obstacle.reason()))
        .orElseGet(
            () ->
                LayerLayout.packed(
                    spec.experts(),
                    spec.topK(),
                    spec.tensors().stream().map(QMoeTensor::bytesPerExpert).toList(),
                    SLOT_GRANULARITY));
  }

  /** The layout of a synthetic model: of what {@link SyntheticModelWriter} writes. */
  public static ResidencyLayout of(SyntheticModel model) {
    List<Long> tensorBytes =
        SyntheticTensor.ofLayer(model, 0).stream()
            .filter(tensor -> tensor.slot() >= 0)
            .map(tensor -> tensor.byteLength() / model.experts())
            .toList();
    return new ResidencyLayout(
        Collections.nCopies(
            model.layers(),
            LayerLayout.packed(model.experts(), model.topK(), tensorBytes, SLOT_GRANULARITY)));
  }

  /**
   * The layout of the model that a trace is of, if every expert has these bytes.
   *
   * @throws ArithmeticException if all of them have more than {@link Long#MAX_VALUE} bytes
   */
  public static ResidencyLayout of(RouteTrace trace, long expertBytes) {
    List<LayerLayout> layers = new ArrayList<>();
    for (int layer = 0; layer < trace.experts().size(); layer++) {
      layers.add(
          LayerLayout.packed(
              trace.experts().get(layer),
              trace.topK().get(layer),
              List.of(expertBytes),
              SLOT_GRANULARITY));
    }
    return new ResidencyLayout(layers);
  }

  /**
   * Checks that a trace is of a model with this layout.
   *
   * @param name of the model, printable
   * @throws EpException {@code trace.model}, with the first difference
   */
  public static void check(RouteTrace trace, ResidencyLayout layout, String name) {
    int layers = layout.layers().size();
    if (trace.experts().size() != layers) {
      throw new EpException(
          "trace.model",
          "the trace is of a model with %d layers of experts; %s has %d"
              .formatted(trace.experts().size(), name, layers));
    }
    for (int layer = 0; layer < layers; layer++) {
      LayerLayout shape = layout.layer(layer);
      int experts = trace.experts().get(layer);
      int topK = trace.topK().get(layer);
      if (experts != shape.experts() || topK != shape.topK()) {
        throw new EpException(
            "trace.model",
            "layer %d of the trace routes to %d of %d experts; that of %s to %d of %d"
                .formatted(layer, topK, experts, name, shape.topK(), shape.experts()));
      }
    }
  }
}
