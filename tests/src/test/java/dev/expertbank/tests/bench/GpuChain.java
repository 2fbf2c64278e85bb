package dev.expertbank.tests.bench;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtProvider;
import ai.onnxruntime.OrtSession;
import ai.onnxruntime.providers.OrtCUDAProviderOptions;
import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.api.Registration;
import dev.expertbank.model.ModelGeometry;
import dev.expertbank.spi.Claim;
import dev.expertbank.tests.TestDevice;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * One chain of QMoE nodes in ONNX Runtime's own provider and in ours next to it, everything
 * resident, in turns; routes are new in each run. On a GPU the other provider is CUDA's, the model
 * is in its layout and tensors stay on the device; on the host it is ONNX Runtime's CPU provider.
 * Outputs are compared after one layer: in a chain, each gate multiplies two results that are both
 * rounded, so that differences about double from layer to layer.
 *
 * <p>Arguments, all optional: layers, a geometry that {@code qmoe synth} knows.
 */
public final class GpuChain {
  private static final int[] ROWS = {1, 2, 4, 8, 64, 512};
  private static final int ROUTES = 50;
  private static final int COMPARED_RUNS = 5;

  /** So that the compiler of the JVM has done its work. */
  private static final double FIRST_WARM_UP_SECONDS = 6;

  /** For every number of rows. */
  private static final double WARM_UP_SECONDS = 0.5;

  private static final int FEW_ROWS = 8;
  private static final int RUNS_OF_FEW_ROWS = 200;
  private static final int RUNS_OF_MANY_ROWS = 20;
  private static final int MOST_RUNS_TO_FILL = 400;

  /** Of the largest output: float16 between the steps, in two orders of summation. */
  private static final double LARGEST_DIFFERENCE = 0.005;

  private final ModelGeometry geometry;
  private final int layers;

  private GpuChain(ModelGeometry geometry, int layers) {
    this.geometry = geometry;
    this.layers = layers;
  }

  public static void main(String[] arguments) throws Exception {
    int layers = Bench.argument(arguments, 0, DecodeModel.LAYERS);
    String name = arguments.length > 1 ? arguments[1] : "gpt-oss-20b";
    ModelGeometry geometry =
        ModelGeometry.named(name)
            .orElseThrow(() -> new IllegalArgumentException("no geometry " + name));
    double[] differences =
        new GpuChain(geometry, 1).differences(ChainModel.write(geometry, 1, !TestDevice.isHost()));
    Path model = ChainModel.write(geometry, layers, !TestDevice.isHost());
    new GpuChain(geometry, layers).run(model, differences);
    for (int i = 0; i < ROWS.length; i++) {
      if (!(differences[i] <= LARGEST_DIFFERENCE)) {
        throw new IllegalStateException(
            "the providers' outputs of " + ROWS[i] + " rows differ by " + differences[i]);
      }
    }
  }

  /** What is done with a session of the other provider and one of ours. */
  @FunctionalInterface
  private interface Comparison {
    void run(OrtSession theirs, OrtSession ours, double theirLoad, double ourLoad) throws Exception;
  }

  private void withSessions(Path model, Comparison comparison) throws Exception {
    try (var theirOptions = options();
        var ourOptions = options();
        Registration registration = register(ourOptions)) {
      addOther(theirOptions);
      addOther(ourOptions);
      long start = System.nanoTime();
      try (OrtSession theirs = Bench.ENVIRONMENT.createSession(model.toString(), theirOptions)) {
        double theirLoad = Bench.secondsSince(start);
        start = System.nanoTime();
        try (OrtSession ours = Bench.ENVIRONMENT.createSession(model.toString(), ourOptions)) {
          double ourLoad = Bench.secondsSince(start);
          fill(ours, registration);
          comparison.run(theirs, ours, theirLoad, ourLoad);
        }
      }
    }
  }

  /** How much outputs differ, for each number of rows. */
  private double[] differences(Path model) throws Exception {
    double[] differences = new double[ROWS.length];
    withSessions(
        model,
        (theirs, ours, _, _) -> {
          for (int i = 0; i < ROWS.length; i++) {
            try (Feeds feeds = feeds(ROWS[i])) {
              for (int run = 0; run < COMPARED_RUNS; run++) {
                double difference = difference(theirs, ours, feeds.of(run));
                differences[i] = Math.max(differences[i], difference);
              }
            }
          }
        });
    return differences;
  }

  private void run(Path model, double[] differences) throws Exception {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("geometry", geometry.name());
    json.put("layers", layers);
    List<Map<String, Object>> rows = new ArrayList<>();
    withSessions(
        model,
        (theirs, ours, theirLoad, ourLoad) -> {
          System.out.printf(
              Locale.ROOT, "load: ONNX Runtime %.2f s, ours %.2f s%n", theirLoad, ourLoad);
          json.put("theirLoadSeconds", theirLoad);
          json.put("ourLoadSeconds", ourLoad);
          System.out.printf(
              "%6s %20s %20s %8s %12s%n",
              "rows", "ONNX Runtime us/layer", "ours us/layer", "ratio", "difference");
          try (Feeds feeds = feeds(1)) {
            warmUp(theirs, ours, feeds, FIRST_WARM_UP_SECONDS);
          }
          for (int i = 0; i < ROWS.length; i++) {
            rows.add(compare(theirs, ours, ROWS[i], differences[i]));
          }
        });
    json.put("rows", rows);
    Bench.write(json);
  }

  private static OrtSession.SessionOptions options() throws OrtException {
    OrtSession.SessionOptions options = Bench.sessionOptions();
    if (!TestDevice.isHost()) {
      // A node that neither provider takes is an error, instead of a slow run.
      options.addConfigEntry("session.disable_cpu_ep_fallback", "1");
    }
    return options;
  }

  private static Registration register(OrtSession.SessionOptions options) throws OrtException {
    Map<String, String> ours = new HashMap<>();
    ours.put("memory.budget", "auto");
    ours.put("residency.policy", "whole-bank");
    ours.put("residency.byte-cap", "4GiB");
    if (!TestDevice.isHost()) {
      ours.put("routing.semantics", "ort-cuda");
      ours.put("io", "device");
    }
    return ExecutionProviders.require("CudaQMoE")
        .register(Bench.ENVIRONMENT, options, TestDevice.options(ours));
  }

  /** Adds CUDA's provider, after ours; on the host there is always the CPU's. */
  private static void addOther(OrtSession.SessionOptions options) throws OrtException {
    if (TestDevice.isHost()) {
      return;
    }
    if (!OrtEnvironment.getAvailableProviders().contains(OrtProvider.CUDA)) {
      throw new IllegalStateException(
          "this ONNX Runtime has no CUDA provider: tests/gpu/peer and run unpack-peer bring one");
    }
    try (var cuda = new OrtCUDAProviderOptions(TestDevice.gpuNumber())) {
      cuda.add("use_tf32", "0");
      options.addCUDA(cuda);
    }
  }

  /** Runs until every expert is resident. */
  private void fill(OrtSession session, Registration registration) throws OrtException {
    var provider = registration.sessions().getLast();
    long claimed =
        provider.placement().nodes().stream()
            .filter(node -> node.claim() instanceof Claim.Claimed)
            .count();
    if (claimed != layers) {
      throw new IllegalStateException("claimed " + claimed + " nodes: " + provider.placement());
    }
    int experts = layers * geometry.experts();
    try (Feeds feeds = feeds(1)) {
      for (int i = 0; provider.metrics().orElseThrow().residentExperts() < experts; i++) {
        if (i == MOST_RUNS_TO_FILL) {
          throw new IllegalStateException(
              "not every expert is resident: " + provider.metrics().orElseThrow());
        }
        session.run(feeds.of(i)).close();
      }
    }
  }

  /** A row of the report. */
  private Map<String, Object> compare(
      OrtSession theirs, OrtSession ours, int count, double difference) throws OrtException {
    int runs = count <= FEW_ROWS ? RUNS_OF_FEW_ROWS : RUNS_OF_MANY_ROWS;
    double[] theirMicros = new double[runs];
    double[] ourMicros = new double[runs];
    try (Feeds feeds = feeds(count)) {
      warmUp(theirs, ours, feeds, WARM_UP_SECONDS);
      for (int i = 0; i < runs; i++) {
        theirMicros[i] = micros(theirs, feeds.of(i));
        ourMicros[i] = micros(ours, feeds.of(i));
      }
    }
    double theirMedian = Bench.median(theirMicros) / layers;
    double ourMedian = Bench.median(ourMicros) / layers;
    System.out.printf(
        Locale.ROOT,
        "%6d %20.2f %20.2f %8.2f %12.2e%n",
        count,
        theirMedian,
        ourMedian,
        ourMedian / theirMedian,
        difference);
    Map<String, Object> row = new LinkedHashMap<>();
    row.put("rows", count);
    row.put("theirMicrosPerLayer", theirMedian);
    row.put("ourMicrosPerLayer", ourMedian);
    row.put("ratio", ourMedian / theirMedian);
    row.put("theirP95MicrosPerLayer", Bench.percentile(theirMicros, 95) / layers);
    row.put("ourP95MicrosPerLayer", Bench.percentile(ourMicros, 95) / layers);
    row.put("relativeDifference", difference);
    return row;
  }

  private static void warmUp(OrtSession theirs, OrtSession ours, Feeds feeds, double seconds)
      throws OrtException {
    long start = System.nanoTime();
    for (int i = 0; Bench.secondsSince(start) < seconds; i++) {
      micros(theirs, feeds.of(i));
      micros(ours, feeds.of(i));
    }
  }

  private static double micros(OrtSession session, Map<String, OnnxTensor> feed)
      throws OrtException {
    long start = System.nanoTime();
    session.run(feed).close();
    return Bench.secondsSince(start) * 1e6;
  }

  /** The largest difference of two outputs, as a part of the largest output. */
  private static double difference(OrtSession a, OrtSession b, Map<String, OnnxTensor> feed)
      throws OrtException {
    try (OrtSession.Result ofA = a.run(feed);
        OrtSession.Result ofB = b.run(feed)) {
      short[] first = Bench.halves((OnnxTensor) ofA.get(0));
      short[] second = Bench.halves((OnnxTensor) ofB.get(0));
      double largest = 0;
      double difference = 0;
      for (int i = 0; i < first.length; i++) {
        float value = Float.float16ToFloat(first[i]);
        largest = Math.max(largest, Math.abs(value));
        difference = Math.max(difference, Math.abs(value - Float.float16ToFloat(second[i])));
      }
      return difference / largest;
    }
  }

  /** One input, and logits for many runs. */
  private record Feeds(OnnxTensor x, List<OnnxTensor> logits) implements AutoCloseable {
    Map<String, OnnxTensor> of(int run) {
      return Map.of("x", x, "logits", logits.get(run % logits.size()));
    }

    @Override
    public void close() {
      x.close();
      logits.forEach(OnnxTensor::close);
    }
  }

  private Feeds feeds(int count) throws OrtException {
    SplittableRandom random = new SplittableRandom(count);
    OnnxTensor x = gaussian(random, count, geometry.hidden(), 0.5);
    List<OnnxTensor> logits = new ArrayList<>();
    for (int i = 0; i < ROUTES; i++) {
      logits.add(gaussian(random, count, layers * geometry.experts(), 2));
    }
    return new Feeds(x, logits);
  }

  private static OnnxTensor gaussian(
      SplittableRandom random, int rows, int columns, double deviation) throws OrtException {
    float[] values = new float[rows * columns];
    for (int i = 0; i < values.length; i++) {
      values[i] = (float) (deviation * random.nextGaussian());
    }
    return Bench.float16(values, rows, columns);
  }
}
