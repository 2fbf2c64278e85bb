package dev.expertbank.tests;

import dev.expertbank.model.Dimension;
import dev.expertbank.model.ExternalDataWriter;
import dev.expertbank.model.OnnxModelBuilder;
import dev.expertbank.spi.TensorShape;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Builds one-node models. The leading dimensions of graph inputs and of the output are symbolic, as
 * in exported models; everything else is fixed.
 */
final class OnnxModels {
  private static final int ALIGNMENT = 64;

  private OnnxModels() {}

  /** The serialized model with every weight inside it. */
  static byte[] inline(MoeNode node) {
    OnnxModelBuilder model = withoutWeights(node);
    for (int slot : node.weightSlots()) {
      TensorData tensor = node.required(slot);
      model.initializer(
          inputName(slot), tensor.type(), TensorShape.of(tensor.shape()), tensor.bytes());
    }
    return model.toBytes();
  }

  /**
   * Writes {@code model.onnx} and {@code weights.bin}.
   *
   * @param oddSlot the weight that starts at an odd file offset; all others start at multiples of
   *     64
   * @return the path of the model
   */
  static Path external(MoeNode node, Path directory, int oddSlot) {
    OnnxModelBuilder model = withoutWeights(node);
    try (var weights = ExternalDataWriter.create(directory.resolve("weights.bin"), false)) {
      for (int slot : node.weightSlots()) {
        TensorData tensor = node.required(slot);
        weights.align(ALIGNMENT);
        if (slot == oddSlot) {
          weights.write(ByteBuffer.allocate(1));
        }
        model.initializer(
            inputName(slot),
            tensor.type(),
            TensorShape.of(tensor.shape()),
            weights.append(tensor.bytes(), 1));
      }
      weights.commit();
    }
    Path file = directory.resolve("model.onnx");
    model.write(file, false);
    return file;
  }

  /** Name of the graph input or initializer in that slot. */
  static String inputName(int slot) {
    return "input_" + slot;
  }

  private static OnnxModelBuilder withoutWeights(MoeNode node) {
    OnnxModelBuilder model = OnnxModelBuilder.named("one_node");
    List<String> names = new ArrayList<>();
    for (int slot = 0; slot < node.inputs().size(); slot++) {
      @Nullable TensorData tensor = node.inputs().get(slot);
      names.add(tensor == null ? "" : inputName(slot));
      if (tensor != null && node.isGraphInput(slot)) {
        model.input(inputName(slot), tensor.type(), dimensions(tensor));
      }
    }
    TensorData input = node.required(MoeNode.INPUT);
    return model
        .node("com.microsoft", node.operator(), "moe", node.attributes(), names, List.of("output"))
        .output("output", input.type(), dimensions(input));
  }

  private static Dimension[] dimensions(TensorData tensor) {
    Dimension[] dimensions = new Dimension[tensor.rank()];
    for (int axis = 0; axis < tensor.rank(); axis++) {
      dimensions[axis] =
          axis < tensor.rank() - 1
              ? Dimension.symbolic("leading_" + tensor.rank() + "_" + axis)
              : Dimension.of(tensor.dimension(axis));
    }
    return dimensions;
  }
}
