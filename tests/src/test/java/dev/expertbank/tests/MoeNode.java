package dev.expertbank.tests;

import dev.expertbank.spi.AttributeValue;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * One {@code com.microsoft} QMoE or MoE node with the contents of all its inputs.
 *
 * @param operator {@code QMoE} or {@code MoE}
 * @param inputs by operator slot, null for an omitted one; slots after the last one are omitted too
 */
record MoeNode(
    String operator, Map<String, AttributeValue> attributes, List<@Nullable TensorData> inputs) {
  static final int INPUT = 0;
  static final int ROUTER_PROBS = 1;
  static final int ROUTER_WEIGHTS = 14;

  MoeNode {
    attributes = Map.copyOf(attributes);
    inputs = Collections.unmodifiableList(new ArrayList<>(inputs));
  }

  Optional<TensorData> input(int slot) {
    return slot < inputs.size() ? Optional.ofNullable(inputs.get(slot)) : Optional.empty();
  }

  TensorData required(int slot) {
    return input(slot).orElseThrow(() -> new IllegalArgumentException("input " + slot + " absent"));
  }

  MoeNode with(String attribute, AttributeValue value) {
    Map<String, AttributeValue> changed = new HashMap<>(attributes);
    changed.put(attribute, value);
    return new MoeNode(operator, changed, inputs);
  }

  MoeNode with(int slot, TensorData tensor) {
    List<@Nullable TensorData> changed = new ArrayList<>(inputs);
    changed.set(slot, tensor);
    return new MoeNode(operator, attributes, changed);
  }

  boolean quantized() {
    return operator.equals("QMoE");
  }

  /** Whether a model has this input computed at run time; all others are weights. */
  boolean isGraphInput(int slot) {
    return slot == INPUT || slot == ROUTER_PROBS || (quantized() && slot == ROUTER_WEIGHTS);
  }

  /** The slots of the weights that the node has, in order. */
  List<Integer> weightSlots() {
    return IntStream.range(0, inputs.size())
        .filter(slot -> !isGraphInput(slot) && input(slot).isPresent())
        .boxed()
        .toList();
  }

  long integer(String attribute, long defaultValue) {
    return attributes.get(attribute) instanceof AttributeValue.IntValue(long value)
        ? value
        : defaultValue;
  }

  /** The attribute as the model holds it, a float, widened. */
  double real(String attribute, float defaultValue) {
    return attributes.get(attribute) instanceof AttributeValue.FloatValue(float value)
        ? value
        : defaultValue;
  }

  String text(String attribute, String defaultValue) {
    return attributes.get(attribute) instanceof AttributeValue.StringValue(String value)
        ? value
        : defaultValue;
  }
}
