package dev.expertbank.tests.bench;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.api.Registration;
import dev.expertbank.model.ModelGeometry;
import dev.expertbank.model.SyntheticModel;
import dev.expertbank.model.SyntheticModelWriter;
import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.simulation.RouteArchetype;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.ProviderSession;
import dev.expertbank.tests.TestDevice;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.LongStream;

/**
 * Layers of gpt-oss-20b's geometry, in int4 with blocks of 32 and float16, whose routes are inputs;
 * with all 24 layers, 10.8 GB.
 *
 * @param file the {@code .onnx} file
 */
record DecodeModel(SyntheticModel model, Path file) {
  static final int LAYERS = 24;

  /** Bytes of one expert, as they are in the file. */
  static final long EXPERT_BYTES = 14_014_080;

  private static final int READ_BYTES = 16 << 20;

  /** Logits of the experts that a token is not routed to. */
  private static final float FAR = -20;

  /** The model of that many layers, written now unless it is there already; its data is cached. */
  static DecodeModel ofLayers(int layers) throws IOException {
    SyntheticModel model =
        ModelGeometry.named("gpt-oss-20b")
            .orElseThrow()
            .synthetic()
            .types(ElementType.FLOAT16, ElementType.FLOAT16)
            .layers(layers)
            .routerInputs(true)
            .build();
    DecodeModel decode =
        new DecodeModel(model, Bench.folder().resolve("gpt-oss-20b-" + layers + ".onnx"));
    long start = System.nanoTime();
    if (Files.exists(decode.file)) {
      decode.readData();
      System.out.printf("read %s in %.1f s%n", decode.data(), Bench.secondsSince(start));
    } else {
      SyntheticModelWriter.write(model, decode.file, true, SyntheticModelWriter.Progress.NONE);
      System.out.printf("wrote %s in %.1f s%n", decode.data(), Bench.secondsSince(start));
    }
    return decode;
  }

  Path data() {
    return file.resolveSibling(file.getFileName() + ".data");
  }

  /** Bytes of the experts that a token is routed to. */
  long bytesPerToken() {
    return EXPERT_BYTES * model.topK() * model.layers();
  }

  /** Fills the page cache. */
  private void readData() throws IOException {
    try (FileChannel channel = FileChannel.open(data())) {
      LongStream.range(0, Math.ceilDiv(channel.size(), READ_BYTES))
          .parallel()
          .forEach(
              piece -> {
                try {
                  channel.read(ByteBuffer.allocate(READ_BYTES), piece * READ_BYTES);
                } catch (IOException e) {
                  throw new UncheckedIOException(e);
                }
              });
    }
  }

  /** Routes of the archetype for this model, {@code [tokens][layers][top k]}. */
  int[][][] routes(RouteArchetype archetype, int tokens, long seed) {
    int[][][] routes = archetype.withTopK(model.topK()).routes(tokens, seed);
    for (int token = 0; token < tokens; token++) {
      routes[token] = Arrays.copyOf(routes[token], model.layers());
    }
    return routes;
  }

  /** A session with the provider. */
  record Open(
      OrtSession.SessionOptions options,
      Registration registration,
      OrtSession session,
      double loadSeconds)
      implements AutoCloseable {
    ProviderSession provider() {
      return registration.sessions().getLast();
    }

    ResidencyMetrics metrics() {
      return provider().metrics().orElseThrow();
    }

    /** One token. The bits of the output. */
    short[] run(Map<String, OnnxTensor> token) throws OrtException {
      try (OrtSession.Result result = session.run(token)) {
        return Bench.halves((OnnxTensor) result.get(0));
      }
    }

    @Override
    public void close() throws OrtException {
      session.close();
      registration.close();
      options.close();
    }
  }

  /** Opens a session on the device to measure. */
  Open open(Map<String, String> providerOptions) throws OrtException {
    OrtSession.SessionOptions options = Bench.sessionOptions();
    Registration registration =
        ExecutionProviders.require("CudaQMoE")
            .register(Bench.ENVIRONMENT, options, TestDevice.options(providerOptions));
    long start = System.nanoTime();
    OrtSession session = Bench.ENVIRONMENT.createSession(file.toString(), options);
    return new Open(options, registration, session, Bench.secondsSince(start));
  }

  /** The inputs of some tokens. */
  record Tokens(List<Map<String, OnnxTensor>> feeds) implements AutoCloseable {
    @Override
    public void close() {
      feeds.forEach(feed -> feed.values().forEach(OnnxTensor::close));
    }
  }

  /** Tokens with these routes and hidden states of unit variance. */
  Tokens tokens(int[][][] routes) throws OrtException {
    SplittableRandom random = new SplittableRandom(1);
    List<Map<String, OnnxTensor>> feeds = new ArrayList<>();
    for (int[][] token : routes) {
      float[] hidden = new float[model.hidden()];
      for (int i = 0; i < hidden.length; i++) {
        hidden[i] = (float) random.nextGaussian();
      }
      Map<String, OnnxTensor> feed = new HashMap<>();
      feed.put("hidden_states", Bench.float16(hidden, 1, hidden.length));
      for (int layer = 0; layer < token.length; layer++) {
        feed.put(
            "layers." + layer + ".router_logits",
            Bench.float16(logits(token[layer]), 1, model.experts()));
      }
      feeds.add(feed);
    }
    return new Tokens(feeds);
  }

  private float[] logits(int[] chosen) {
    float[] logits = new float[model.experts()];
    Arrays.fill(logits, FAR);
    for (int rank = 0; rank < chosen.length; rank++) {
      logits[chosen[rank]] = 1 - rank / 8f;
    }
    return logits;
  }
}
