package dev.expertbank.model;

import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.Printable;
import dev.expertbank.spi.TensorShape;
import dev.expertbank.spi.qmoe.WeightLayout;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Writes a synthetic model of chained QMoE layers with seeded weights.
 *
 * <p>Layer {@code i} is {@code y = QMoE(x, MatMul(x, router))}; the next one gets {@code
 * LayerNormalization(x + y)}, as in a transformer with normalisation after the residual: without it
 * the gating, which is quadratic, makes values vanish or explode within a few layers. The output of
 * the model is the last {@code y}. With bfloat16 the steps between QMoE nodes compute in float,
 * since ONNX Runtime's CPU provider has no bfloat16 kernels for them.
 *
 * <p>All weights are in one file beside the model, {@code NAME.onnx.data}, each tensor at a
 * multiple of 4096 bytes. They are drawn by a thread for each processor and streamed: memory does
 * not depend on the model's size.
 */
public final class SyntheticModelWriter {
  /** Multiple of the page size on x86-64, so that a tensor can be mapped on its own. */
  public static final int ALIGNMENT = 4096;

  private static final int CHUNK_BYTES = 256 << 10;
  private static final int MAX_THREADS = 16;
  private static final float NORMALIZATION_EPSILON = 1e-5f;

  private final SyntheticModel model;
  private final OnnxModelBuilder builder;
  private final Progress progress;
  private long written;

  /** Told how far the writing is; called by one thread at a time, every 256 KiB. */
  @FunctionalInterface
  public interface Progress {
    /** No reports. */
    Progress NONE = (written, total) -> {};

    void written(long bytes, long totalBytes);
  }

  /**
   * What was written.
   *
   * @param dataBytes size of the data file
   */
  public record Written(Path model, Path data, long dataBytes) {}

  private SyntheticModelWriter(SyntheticModel model, Progress progress) {
    this.model = model;
    this.progress = progress;
    this.builder = OnnxModelBuilder.named("synthetic QMoE");
  }

  /** Size of the data file of such a model. */
  public static long dataBytes(SyntheticModel model) {
    long bytes = 0;
    for (int layer = 0; layer < model.layers(); layer++) {
      for (SyntheticTensor tensor : SyntheticTensor.ofLayer(model, layer)) {
        bytes = Math.addExact(align(bytes), tensor.byteLength());
      }
    }
    return bytes;
  }

  private static long align(long bytes) {
    return Math.addExact(bytes, ALIGNMENT - 1) & -ALIGNMENT;
  }

  /**
   * Writes the model and its data file, the data first; both appear complete or not at all.
   *
   * @param file the {@code .onnx} file; its directory must exist
   * @param overwrite replace files that have the names already
   * @throws EpException {@code write.directory}, {@code write.no-space}, or as {@link AtomicFile}
   */
  public static Written write(
      SyntheticModel model, Path file, boolean overwrite, Progress progress) {
    Path directory = directory(file);
    Path target = directory.resolve(Objects.requireNonNull(file.getFileName()));
    Path data = directory.resolve(file.getFileName() + ".data");
    long bytes = dataBytes(model);
    requireSpace(directory, bytes);
    SyntheticModelWriter writer = new SyntheticModelWriter(model, progress);
    try (AtomicFile modelFile = AtomicFile.create(target, overwrite);
        ExternalDataWriter dataFile = ExternalDataWriter.create(data, overwrite)) {
      writer.layers(dataFile, bytes);
      modelFile.write(ByteBuffer.wrap(writer.builder.toBytes()));
      dataFile.commit();
      modelFile.commit();
    }
    return new Written(target, data, bytes);
  }

  private static Path directory(Path file) {
    if (file.getFileName() == null || file.getFileName().toString().isEmpty()) {
      throw new EpException(
          "write.not-regular", Printable.quote(file.toString()) + " is not the name of a file");
    }
    Path parent = Objects.requireNonNull(file.toAbsolutePath().getParent());
    try {
      return parent.toRealPath();
    } catch (IOException e) {
      throw new EpException(
          "write.directory",
          "the directory "
              + Printable.quote(parent.toString())
              + " does not exist or cannot be entered; create it first",
          e);
    }
  }

  private static void requireSpace(Path directory, long bytes) {
    long usable;
    try {
      usable = Files.getFileStore(directory).getUsableSpace();
    } catch (IOException e) {
      return; // Unknown: the write itself will tell.
    }
    if (usable < bytes) {
      throw new EpException(
          "write.no-space",
          "the model takes "
              + bytes
              + " bytes, and "
              + Printable.quote(directory.toString())
              + " has "
              + usable
              + " left; use fewer --layers or another directory");
    }
  }

  private void layers(ExternalDataWriter data, long totalBytes) {
    Dimension tokens = Dimension.symbolic("tokens");
    Dimension hidden = Dimension.of(model.hidden());
    List<ByteBuffer> chunks =
        Stream.generate(() -> ByteBuffer.allocateDirect(CHUNK_BYTES))
            .limit(Math.min(MAX_THREADS, Runtime.getRuntime().availableProcessors()))
            .toList();
    String x = "hidden_states";
    builder.input(x, model.ioType(), tokens, hidden);
    for (int layer = 0; layer < model.layers(); layer++) {
      String prefix = "layers." + layer + ".";
      List<SyntheticTensor> tensors = SyntheticTensor.ofLayer(model, layer);
      for (SyntheticTensor tensor : tensors) {
        ConstantData.External range = draw(tensor, data, chunks, totalBytes);
        builder.initializer(tensor.name(), tensor.type(), tensor.shape(), range);
      }
      String logits = router(prefix, x);
      boolean last = layer == model.layers() - 1;
      String y = last ? "output" : prefix + "experts_output";
      builder.node(
          "com.microsoft",
          "QMoE",
          prefix + "QMoE",
          attributes(),
          inputs(tensors, x, logits),
          List.of(y));
      if (last) {
        builder.output(y, model.ioType(), tokens, hidden);
      } else {
        builder.value(y, model.ioType(), tokens, hidden);
        x = normalize(prefix, x, y);
      }
    }
  }

  /** Draws one tensor, piece by piece, and writes it. */
  private ConstantData.External draw(
      SyntheticTensor tensor, ExternalDataWriter data, List<ByteBuffer> chunks, long totalBytes) {
    ConstantData.External range = data.reserve(tensor.byteLength(), ALIGNMENT);
    SyntheticValues values = new SyntheticValues(tensor, model.seed());
    written = range.offset();
    IntStream.range(0, chunks.size())
        .parallel()
        .forEach(
            lane -> {
              for (long at = (long) lane * CHUNK_BYTES;
                  at < range.byteLength();
                  at += (long) chunks.size() * CHUNK_BYTES) {
                int count = (int) Math.min(CHUNK_BYTES, range.byteLength() - at);
                int words = Math.ceilDiv(count, Long.BYTES) * Long.BYTES;
                ByteBuffer chunk = chunks.get(lane);
                values.fill(chunk.slice(0, words).order(ByteOrder.LITTLE_ENDIAN), at);
                data.write(chunk.slice(0, count), range.offset() + at);
                report(count, totalBytes);
              }
            });
    return range;
  }

  private synchronized void report(int bytes, long totalBytes) {
    written += bytes;
    progress.written(written, totalBytes);
  }

  /** The logits of one layer, as a graph input or from the router's weights. */
  private String router(String prefix, String x) {
    Dimension tokens = Dimension.symbolic("tokens");
    Dimension experts = Dimension.of(model.experts());
    String logits = prefix + "router_logits";
    if (model.routerInputs()) {
      builder.input(logits, model.ioType(), tokens, experts);
      return logits;
    }
    builder.value(logits, model.ioType(), tokens, experts);
    String in = toGlue(x, prefix + "router_input");
    String out = isCast() ? logits + "_float" : logits;
    builder.node(
        "",
        "MatMul",
        prefix + "Router",
        Map.of(),
        List.of(in, prefix + "router.weight"),
        List.of(out));
    return fromGlue(out, logits);
  }

  /** The hidden state of the next layer. */
  private String normalize(String prefix, String x, String y) {
    Dimension tokens = Dimension.symbolic("tokens");
    Dimension hidden = Dimension.of(model.hidden());
    String scale = "normalization.scale";
    if (prefix.equals("layers.0.")) {
      builder.initializer(scale, glueType(), TensorShape.of(model.hidden()), ones());
    }
    String sum = prefix + "residual";
    String in = toGlue(x, prefix + "residual_input");
    String experts = toGlue(y, prefix + "residual_experts");
    builder.node("", "Add", prefix + "Add", Map.of(), List.of(in, experts), List.of(sum));
    String next = prefix + "hidden_states";
    String out = isCast() ? next + "_float" : next;
    builder.node(
        "",
        "LayerNormalization",
        prefix + "LayerNormalization",
        Map.of(
            "axis",
            new AttributeValue.IntValue(-1),
            "epsilon",
            new AttributeValue.FloatValue(NORMALIZATION_EPSILON)),
        List.of(sum, scale),
        List.of(out));
    builder.value(next, model.ioType(), tokens, hidden);
    return fromGlue(out, next);
  }

  private boolean isCast() {
    return model.ioType() == ElementType.BFLOAT16;
  }

  private ElementType glueType() {
    return isCast() ? ElementType.FLOAT : model.ioType();
  }

  private String toGlue(String value, String castName) {
    return isCast() ? cast(value, castName, ElementType.FLOAT) : value;
  }

  private String fromGlue(String value, String name) {
    return isCast() ? cast(value, name, model.ioType()) : value;
  }

  private String cast(String value, String name, ElementType type) {
    builder.node(
        "",
        "Cast",
        name + "/Cast",
        Map.of("to", new AttributeValue.IntValue(type.code())),
        List.of(value),
        List.of(name));
    return name;
  }

  private byte[] ones() {
    ElementType type = glueType();
    ByteBuffer bytes =
        ByteBuffer.allocate((int) type.bytes(model.hidden())).order(ByteOrder.LITTLE_ENDIAN);
    while (bytes.hasRemaining()) {
      if (type == ElementType.FLOAT) {
        bytes.putFloat(1);
      } else {
        bytes.putShort(Float.floatToFloat16(1));
      }
    }
    return bytes.array();
  }

  /** Attributes of a QMoE node; those that do not apply stay absent. */
  private Map<String, AttributeValue> attributes() {
    Map<String, AttributeValue> attributes = new HashMap<>();
    attributes.put("activation_type", new AttributeValue.StringValue(model.activation()));
    attributes.put("k", new AttributeValue.IntValue(model.topK()));
    attributes.put("expert_weight_bits", new AttributeValue.IntValue(model.bits()));
    attributes.put("quant_type", new AttributeValue.StringValue("int"));
    attributes.put(
        "weights_prepacked",
        new AttributeValue.IntValue(model.layout() == WeightLayout.PLAIN ? 0 : 1));
    attributes.put(
        "normalize_routing_weights",
        new AttributeValue.IntValue(model.normalizeRoutingWeights() ? 1 : 0));
    if (model.blockSize() > 0) {
      attributes.put("block_size", new AttributeValue.IntValue(model.blockSize()));
    }
    if (model.activation().equals("swiglu")) {
      attributes.put("swiglu_fusion", new AttributeValue.IntValue(model.swigluFusion()));
      attributes.put("activation_alpha", new AttributeValue.FloatValue(model.alpha()));
      attributes.put("activation_beta", new AttributeValue.FloatValue(model.beta()));
      if (Float.isFinite(model.limit())) {
        attributes.put("swiglu_limit", new AttributeValue.FloatValue(model.limit()));
      }
    }
    return attributes;
  }

  private static List<String> inputs(List<SyntheticTensor> tensors, String x, String logits) {
    int slots = 1 + tensors.stream().mapToInt(SyntheticTensor::slot).max().orElse(0);
    List<String> inputs = new ArrayList<>(Collections.nCopies(slots, ""));
    inputs.set(0, x);
    inputs.set(1, logits);
    tensors.stream().filter(t -> t.slot() >= 0).forEach(t -> inputs.set(t.slot(), t.name()));
    return inputs;
  }
}
