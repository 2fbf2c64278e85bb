package dev.expertbank.spi.qmoe;

import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.GraphValue;
import dev.expertbank.spi.Printable;
import dev.expertbank.spi.qmoe.Pageability.NonPageable;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * Where the experts of one node are in the model's external data.
 *
 * <p>The catalog is complete when every expert tensor is pageable: weights, scales, biases and zero
 * points alike. Only then do its experts form groups; there is no group with a part missing.
 *
 * @param experts of the node
 * @param tensors one entry per expert tensor that the node has, in slot order
 */
public record QMoeCatalog(int experts, List<Entry> tensors) {
  public QMoeCatalog {
    tensors = List.copyOf(tensors);
  }

  /** One expert tensor: which input, its name in the model, and its regions. */
  public record Entry(QMoeInput input, String name, WeightRegionCatalog regions) {}

  /** A tensor that keeps the experts from being moved one by one. */
  public record Obstacle(QMoeInput input, String name, NonPageableReason reason) {
    /** One printable sentence. */
    public String text() {
      return input.schemaName() + " " + Printable.quote(name) + ": " + reason.text();
    }
  }

  /**
   * The catalog of a node.
   *
   * @param spec what {@link QMoeSpecs#read} made of the same node
   */
  public static QMoeCatalog of(QMoeSpec spec, GraphNode node) {
    return new QMoeCatalog(
        spec.experts(), spec.tensors().stream().map(tensor -> entry(tensor, node)).toList());
  }

  private static Entry entry(QMoeTensor tensor, GraphNode node) {
    GraphValue value = node.input(tensor.input().slot()).orElseThrow();
    ConstantData data = value.constant().orElseThrow();
    return new Entry(
        tensor.input(),
        value.name(),
        WeightRegionCatalog.classify(
            tensor.layout(), value.shape().orElseThrow(), value.elementType(), data));
  }

  /** Every tensor that is not pageable, in slot order; empty when the catalog is complete. */
  public List<Obstacle> obstacles() {
    return tensors.stream()
        .flatMap(
            entry ->
                entry.regions().pageability() instanceof NonPageable(NonPageableReason reason)
                    ? Stream.of(new Obstacle(entry.input(), entry.name(), reason))
                    : Stream.of())
        .toList();
  }

  /** Whether every expert is a group of regions. */
  public boolean isComplete() {
    return tensors.stream().allMatch(entry -> entry.regions().isPageable());
  }

  /**
   * All regions of one expert.
   *
   * @throws IllegalStateException if the catalog is not complete
   * @throws IndexOutOfBoundsException if there is no such expert
   */
  public ExpertGroup group(int expert) {
    checkComplete();
    Objects.checkIndex(expert, experts);
    return new ExpertGroup(
        expert,
        tensors.stream()
            .map(
                entry ->
                    new ExpertGroup.Member(
                        entry.input(),
                        entry.regions().location().orElseThrow(),
                        entry.regions().region(expert)))
            .toList());
  }

  /**
   * Bytes of one group; all groups of a node have the same.
   *
   * @throws IllegalStateException if the catalog is not complete
   */
  public long groupBytes() {
    checkComplete();
    return tensors.stream().mapToLong(entry -> entry.regions().bytesPerExpert()).sum();
  }

  private void checkComplete() {
    List<Obstacle> obstacles = obstacles();
    if (!obstacles.isEmpty()) {
      throw new IllegalStateException(
          "the experts are not separable: " + obstacles.getFirst().text());
    }
  }
}
