package dev.expertbank.tests.bench;

import dev.expertbank.model.Dimension;
import dev.expertbank.model.ExternalDataWriter;
import dev.expertbank.model.ModelGeometry;
import dev.expertbank.model.OnnxModelBuilder;
import dev.expertbank.spi.AttributeValue.FloatValue;
import dev.expertbank.spi.AttributeValue.IntValue;
import dev.expertbank.spi.AttributeValue.StringValue;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.TensorShape;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.LongStream;

/**
 * QMoE nodes in a row, in int4 with blocks of 32 and float16, with nothing between them: {@code x}
 * goes through all, and {@code logits} is split into those of each. All bytes are valid weights in
 * either layout. Scales and biases are such that the bias of an expert and its product with the
 * input weigh about alike, and values neither grow nor vanish: so the output depends on the routes
 * and the weights of the last layers.
 */
final class ChainModel {
  private static final int ALIGNMENT = 4096;
  private static final int BLOCK = 32;
  private static final int NOISE_BYTES = 1 << 24;
  private static final double BIAS = 0.25;

  /** Of the output of a projection to its input, for weights of 4 bits around 8. */
  private static final double GAIN = 1.5;

  private static final double WEIGHT_DEVIATION = 4.6;

  private final ModelGeometry geometry;
  private final int layers;
  private final boolean cudaLayout;
  private final OnnxModelBuilder graph = OnnxModelBuilder.named("chain");
  private final SplittableRandom random = new SplittableRandom(3);
  private final byte[] noise = new byte[NOISE_BYTES];

  private ChainModel(ModelGeometry geometry, int layers, boolean cudaLayout) {
    this.geometry = geometry;
    this.layers = layers;
    this.cudaLayout = cudaLayout;
    random.nextBytes(noise);
    for (int i = 0; i < noise.length; i++) {
      noise[i] = symmetric(noise[i]);
    }
  }

  /** Two weights without the lowest value: they add nothing on the average. */
  private static byte symmetric(byte weights) {
    int low = (weights & 0x0f) == 0 ? 0x08 : 0;
    int high = (weights & 0xf0) == 0 ? 0x80 : 0;
    return (byte) (weights | low | high);
  }

  /**
   * The model, written now unless it is there already.
   *
   * @param cudaLayout the layout and the shapes of models exported for ONNX Runtime's CUDA
   *     provider; else plain rows
   */
  static Path write(ModelGeometry geometry, int layers, boolean cudaLayout) throws IOException {
    String name =
        "chain-%s-%d%s.onnx".formatted(geometry.name(), layers, cudaLayout ? "" : "-plain");
    Path file = Bench.folder().resolve(name);
    if (!Files.exists(file)) {
      long start = System.nanoTime();
      new ChainModel(geometry, layers, cudaLayout).write(file);
      System.out.printf("wrote %s in %.1f s%n", file, Bench.secondsSince(start));
    }
    return file;
  }

  private void write(Path file) {
    Dimension rows = Dimension.symbolic("rows");
    Dimension hidden = Dimension.of(geometry.hidden());
    graph.input("x", ElementType.FLOAT16, rows, hidden);
    graph.input(
        "logits", ElementType.FLOAT16, rows, Dimension.of((long) layers * geometry.experts()));
    graph.output("y", ElementType.FLOAT16, rows, hidden);
    List<String> logits = new ArrayList<>();
    for (int layer = 0; layer < layers; layer++) {
      logits.add("logits" + layer);
    }
    graph.node(
        "",
        "Split",
        "split",
        Map.of("axis", new IntValue(1), "num_outputs", new IntValue(layers)),
        List.of("logits"),
        logits);
    try (ExternalDataWriter data =
        ExternalDataWriter.create(file.resolveSibling(file.getFileName() + ".data"), true)) {
      for (int layer = 0; layer < layers; layer++) {
        layer(data, layer);
      }
      data.commit();
    }
    graph.write(file, true);
  }

  private void layer(ExternalDataWriter data, int layer) {
    List<String> inputs = new ArrayList<>();
    inputs.add(layer == 0 ? "x" : "x" + layer);
    inputs.add("logits" + layer);
    projection(data, inputs, "fc1_" + layer, 2 * geometry.inter(), geometry.hidden());
    projection(data, inputs, "fc2_" + layer, geometry.hidden(), geometry.inter());
    Map<String, dev.expertbank.spi.AttributeValue> attributes = new HashMap<>();
    attributes.put("k", new IntValue(geometry.topK()));
    attributes.put("activation_type", new StringValue("swiglu"));
    attributes.put("swiglu_fusion", new IntValue(1));
    attributes.put("activation_alpha", new FloatValue(1.702f));
    attributes.put("activation_beta", new FloatValue(1));
    attributes.put("swiglu_limit", new FloatValue(7));
    attributes.put("expert_weight_bits", new IntValue(4));
    attributes.put("block_size", new IntValue(BLOCK));
    attributes.put("normalize_routing_weights", new IntValue(1));
    if (!cudaLayout) {
      attributes.put("weights_prepacked", new IntValue(0));
    }
    graph.node(
        "com.microsoft",
        "QMoE",
        "moe" + layer,
        attributes,
        inputs,
        List.of(layer == layers - 1 ? "y" : "x" + (layer + 1)));
  }

  /** Weights, scales and biases of one projection, which are the next three inputs of the node. */
  private void projection(
      ExternalDataWriter data, List<String> inputs, String name, int rows, int reduction) {
    long experts = geometry.experts();
    TensorShape weights =
        cudaLayout
            ? TensorShape.of(experts, reduction, rows / 2)
            : TensorShape.of(experts, rows, reduction / 2);
    add(data, inputs, name + "_weights", ElementType.UINT8, weights, noise);
    float scale = (float) (GAIN / (WEIGHT_DEVIATION * Math.sqrt(reduction)));
    byte[] scales = new byte[NOISE_BYTES];
    halves(scales, () -> scale);
    TensorShape blocks = TensorShape.of(experts, rows, Math.ceilDiv(reduction, BLOCK));
    add(data, inputs, name + "_scales", ElementType.FLOAT16, blocks, scales);
    byte[] biases = new byte[NOISE_BYTES];
    halves(biases, () -> random.nextDouble(-BIAS, BIAS));
    add(data, inputs, name + "_bias", ElementType.FLOAT16, TensorShape.of(experts, rows), biases);
  }

  private static void halves(byte[] target, java.util.function.DoubleSupplier values) {
    ByteBuffer buffer = ByteBuffer.wrap(target).order(ByteOrder.LITTLE_ENDIAN);
    while (buffer.hasRemaining()) {
      buffer.putShort(Float.floatToFloat16((float) values.getAsDouble()));
    }
  }

  /** Adds a tensor of these bytes, over and over, each time from another place on. */
  private void add(
      ExternalDataWriter data,
      List<String> inputs,
      String name,
      ElementType type,
      TensorShape shape,
      byte[] bytes) {
    var range = data.reserve(type.bytes(shape.elementCount()), ALIGNMENT);
    long chunk = NOISE_BYTES / 2;
    int shift = 2 * random.nextInt(NOISE_BYTES / 4);
    LongStream.range(0, Math.ceilDiv(range.byteLength(), chunk))
        .parallel()
        .forEach(
            i -> {
              int from = (int) ((shift + i * 4098) % (NOISE_BYTES / 2));
              int count = (int) Math.min(chunk, range.byteLength() - i * chunk);
              data.write(ByteBuffer.wrap(bytes, from, count), range.offset() + i * chunk);
            });
    graph.initializer(name, type, shape, range);
    inputs.add(name);
  }
}
