package dev.expertbank.tests.session;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtLoggingLevel;
import ai.onnxruntime.OrtSession;
import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.api.Registration;
import dev.expertbank.model.Dimension;
import dev.expertbank.model.OnnxModelBuilder;
import dev.expertbank.model.SyntheticModel;
import dev.expertbank.model.SyntheticModelWriter;
import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.TensorShape;
import dev.expertbank.tests.TestDevice;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/** Small QMoE models, and how tests open and run them. */
final class SmallQMoe {
  static final int HIDDEN = 64;
  static final int INTER = 32;
  static final int EXPERTS = 8;
  static final int TOP_K = 2;

  /**
   * Weights, scales and biases of both projections in {@link #write}, each a multiple of 64: (2048
   * + 512 + 256) + (1024 + 256 + 256).
   */
  static final long EXPERT_BYTES = 4352;

  static final OrtEnvironment ENVIRONMENT = OrtEnvironment.getEnvironment();

  private SmallQMoe() {}

  /** A session with the provider, and what closes with it. */
  record Open(OrtSession.SessionOptions options, Registration registration, OrtSession session)
      implements AutoCloseable {
    @Override
    public void close() throws OrtException {
      session.close();
      registration.close();
      options.close();
    }
  }

  /** Changes session options before the session is created. */
  interface Configure {
    void accept(OrtSession.SessionOptions options) throws OrtException;

    Configure NOTHING = options -> {};
  }

  /** Creates the session. */
  interface Create {
    OrtSession create(OrtSession.SessionOptions options) throws OrtException;
  }

  /** Opens a session on the test device, unless the options name another. */
  static Open open(Create create, Map<String, String> providerOptions, Configure configure)
      throws OrtException {
    var options = new OrtSession.SessionOptions();
    try {
      options.setSessionLogLevel(OrtLoggingLevel.ORT_LOGGING_LEVEL_ERROR);
      configure.accept(options);
      Registration registration =
          ExecutionProviders.require("CudaQMoE")
              .register(ENVIRONMENT, options, TestDevice.options(providerOptions));
      return new Open(options, registration, create.create(options));
    } catch (OrtException | RuntimeException e) {
      options.close();
      throw e;
    }
  }

  static Open open(Path model, Map<String, String> providerOptions) throws OrtException {
    return open(
        options -> ENVIRONMENT.createSession(model.toString(), options),
        providerOptions,
        Configure.NOTHING);
  }

  static Open open(byte[] model) throws OrtException {
    return open(options -> ENVIRONMENT.createSession(model, options), Map.of(), Configure.NOTHING);
  }

  /** Chained layers with external data, routers inside the model. */
  static Path write(Path directory, int layers) {
    SyntheticModel model =
        SyntheticModel.builder()
            .geometry(HIDDEN, INTER, EXPERTS, TOP_K)
            .quantization(4, 32)
            .layers(layers)
            .seed(42)
            .build();
    return SyntheticModelWriter.write(
            model, directory.resolve("small.onnx"), false, SyntheticModelWriter.Progress.NONE)
        .model();
  }

  /** Runs a model of {@link #write}. */
  static float[][] run(OrtSession session, float[][] tokens) throws OrtException {
    String input = session.getInputNames().iterator().next();
    try (OnnxTensor tensor = OnnxTensor.createTensor(ENVIRONMENT, tokens);
        OrtSession.Result result = session.run(Map.of(input, tensor))) {
      return (float[][]) result.get(0).getValue();
    }
  }

  static float[][] tokens(int count, long seed) {
    SplittableRandom random = new SplittableRandom(seed);
    float[][] tokens = new float[count][HIDDEN];
    for (float[] token : tokens) {
      for (int i = 0; i < HIDDEN; i++) {
        token[i] = (float) random.nextDouble(-1, 1);
      }
    }
    return tokens;
  }

  /** Adds the weights of a silu QMoE node with int4 blocks of 32 as inline initializers. */
  static OnnxModelBuilder weights(OnnxModelBuilder graph) {
    SplittableRandom random = new SplittableRandom(7);
    graph.initializer(
        "w1",
        ElementType.UINT8,
        TensorShape.of(EXPERTS, INTER, HIDDEN / 2),
        bytes(random, EXPERTS * INTER * HIDDEN / 2));
    graph.initializer(
        "s1",
        ElementType.FLOAT,
        TensorShape.of(EXPERTS, INTER, HIDDEN / 32),
        scales(random, EXPERTS * INTER * HIDDEN / 32));
    graph.initializer(
        "w2",
        ElementType.UINT8,
        TensorShape.of(EXPERTS, HIDDEN, INTER / 2),
        bytes(random, EXPERTS * HIDDEN * INTER / 2));
    return graph.initializer(
        "s2",
        ElementType.FLOAT,
        TensorShape.of(EXPERTS, HIDDEN, 1),
        scales(random, EXPERTS * HIDDEN));
  }

  /** A node over {@link #weights}, which may be in an outer graph. */
  static OnnxModelBuilder node(OnnxModelBuilder graph, String input, String router, String output) {
    Map<String, AttributeValue> attributes = new HashMap<>();
    attributes.put("k", new AttributeValue.IntValue(TOP_K));
    attributes.put("activation_type", new AttributeValue.StringValue("silu"));
    attributes.put("expert_weight_bits", new AttributeValue.IntValue(4));
    attributes.put("block_size", new AttributeValue.IntValue(32));
    attributes.put("normalize_routing_weights", new AttributeValue.IntValue(1));
    attributes.put("weights_prepacked", new AttributeValue.IntValue(0));
    return graph.node(
        "com.microsoft",
        "QMoE",
        "qmoe-" + output,
        attributes,
        List.of(input, router, "w1", "s1", "", "w2", "s2"),
        List.of(output));
  }

  static Dimension[] rows(long width) {
    return new Dimension[] {Dimension.symbolic("tokens"), Dimension.of(width)};
  }

  private static byte[] bytes(SplittableRandom random, int count) {
    byte[] bytes = new byte[count];
    random.nextBytes(bytes);
    return bytes;
  }

  private static byte[] scales(SplittableRandom random, int count) {
    ByteBuffer buffer = ByteBuffer.allocate(4 * count).order(ByteOrder.LITTLE_ENDIAN);
    for (int i = 0; i < count; i++) {
      buffer.putFloat((float) random.nextDouble(0.01, 0.05));
    }
    return buffer.array();
  }
}
