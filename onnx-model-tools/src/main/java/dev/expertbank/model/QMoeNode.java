package dev.expertbank.model;

import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.qmoe.QMoeCatalog;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.QMoeSpecs;
import dev.expertbank.spi.qmoe.RoutingSemantics;
import java.util.List;
import java.util.Optional;

/**
 * A QMoE node of a model file, and what the provider would make of it.
 *
 * @param graph path of the graph that holds it
 * @param catalog where its experts are; empty when the node is not supported
 */
public record QMoeNode(
    String graph, GraphNode node, QMoeReading reading, Optional<QMoeCatalog> catalog) {
  public static final String TYPE = "com.microsoft::QMoE";

  /** Every QMoE node of the model, in all graphs, in file order. */
  public static List<QMoeNode> of(OnnxModel model, RoutingSemantics routing) {
    return model.nodes(TYPE).stream().map(located -> of(located, routing)).toList();
  }

  private static QMoeNode of(OnnxModel.LocatedNode located, RoutingSemantics routing) {
    QMoeReading reading = QMoeSpecs.read(located.node(), routing);
    Optional<QMoeCatalog> catalog =
        reading instanceof QMoeReading.Supported(var spec, var _)
            ? Optional.of(QMoeCatalog.of(spec, located.node()))
            : Optional.empty();
    return new QMoeNode(located.graph(), located.node(), reading, catalog);
  }

  /** The node's name, or that of its first output when it has none. */
  public String name() {
    return node.name().isEmpty() && !node.outputs().isEmpty()
        ? node.outputs().getFirst().name()
        : node.name();
  }

  /** Whether the file says which layout the weights have, rather than leaving it open. */
  public boolean layoutIsStated() {
    return node.attributes().get("weights_prepacked") instanceof AttributeValue.IntValue(long value)
        && value != -1;
  }
}
