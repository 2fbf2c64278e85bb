package dev.expertbank.spi;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * One node of an ONNX graph as plain data, from ONNX Runtime or from a model file.
 *
 * @param domain operator domain, empty for {@code ai.onnx}
 * @param inputs by operator slot; an omitted optional input is null
 */
public record GraphNode(
    String name,
    String domain,
    String operatorType,
    int sinceVersion,
    Map<String, AttributeValue> attributes,
    List<@Nullable GraphValue> inputs,
    List<GraphValue> outputs) {
  public GraphNode {
    attributes = Map.copyOf(attributes);
    inputs = Collections.unmodifiableList(new ArrayList<>(inputs));
    outputs = List.copyOf(outputs);
  }

  /** The input in that slot; empty when it is omitted or beyond the inputs that the node lists. */
  public Optional<GraphValue> input(int slot) {
    return slot < inputs.size() ? Optional.ofNullable(inputs.get(slot)) : Optional.empty();
  }

  /** For example {@code com.microsoft::QMoE}. */
  public String qualifiedType() {
    return (domain.isEmpty() ? "ai.onnx" : domain) + "::" + operatorType;
  }
}
