package dev.expertbank.tests.bench;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtSession;
import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.api.Registration;
import dev.expertbank.model.ModelGeometry;
import dev.expertbank.model.SyntheticModelWriter;
import dev.expertbank.residency.PrefillStreamMetrics;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * Prefill with cold experts read in place and streamed through two slots, in turns, on one layer of
 * gpt-oss-20b's geometry; and how much of the copying was hidden behind computation.
 */
public final class PrefillStreaming {
  private static final OrtEnvironment ENVIRONMENT = OrtEnvironment.getEnvironment();
  private static final int RUNS = 6;

  private PrefillStreaming() {}

  public static void main(String[] arguments) throws Exception {
    int threads = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 2;
    Path directory = Files.createTempDirectory("prefill");
    Path model =
        SyntheticModelWriter.write(
                ModelGeometry.named("gpt-oss-20b").orElseThrow().synthetic().layers(1).build(),
                directory.resolve("model.onnx"),
                false,
                SyntheticModelWriter.Progress.NONE)
            .model();
    // One expert fits, so nearly all of them are cold.
    Map<String, String> budget = Map.of("memory.budget", "20MiB", "residency.policy", "whole-bank");
    try (var placeOptions = options(threads);
        var streamOptions = options(threads);
        var place = register(placeOptions, budget, "off");
        var stream = register(streamOptions, budget, "on");
        var inPlace = ENVIRONMENT.createSession(model.toString(), placeOptions);
        var streamed = ENVIRONMENT.createSession(model.toString(), streamOptions)) {
      System.out.printf("%8s %12s %12s %8s%n", "tokens", "in place ms", "streamed ms", "ratio");
      for (int tokens : new int[] {16, 64, 256, 512}) {
        double[] placeMillis = new double[RUNS];
        double[] streamMillis = new double[RUNS];
        for (int run = 0; run < RUNS; run++) {
          placeMillis[run] = run(inPlace, tokens, run);
          streamMillis[run] = run(streamed, tokens, run);
        }
        double a = median(placeMillis);
        double b = median(streamMillis);
        System.out.printf("%8d %12.1f %12.1f %8.2f%n", tokens, a, b, b / a);
      }
      PrefillStreamMetrics metrics = stream.sessions().getFirst().metrics().orElseThrow().prefill();
      System.out.printf(
          "streamed %d experts, %.1f GB; copying took %.2f s, of which computation waited %.2f s:"
              + " %.0f %% was hidden%n",
          metrics.experts(),
          metrics.bytes() * 1e-9,
          metrics.copyNanos() * 1e-9,
          metrics.waitNanos() * 1e-9,
          100.0 * (metrics.copyNanos() - metrics.waitNanos()) / metrics.copyNanos());
      if (!place
          .sessions()
          .getFirst()
          .metrics()
          .orElseThrow()
          .prefill()
          .equals(PrefillStreamMetrics.NONE)) {
        throw new IllegalStateException("the other session streamed");
      }
    } finally {
      Files.deleteIfExists(directory.resolve("model.onnx.data"));
      Files.deleteIfExists(model);
      Files.deleteIfExists(directory);
    }
  }

  private static OrtSession.SessionOptions options(int threads) throws Exception {
    var options = new OrtSession.SessionOptions();
    options.setIntraOpNumThreads(threads);
    return options;
  }

  private static Registration register(
      OrtSession.SessionOptions options, Map<String, String> budget, String streaming)
      throws Exception {
    var all = new java.util.HashMap<>(budget);
    all.put("prefill.streaming", streaming);
    return ExecutionProviders.require("CudaQMoE").register(ENVIRONMENT, options, all);
  }

  private static double run(OrtSession session, int tokens, long seed) throws Exception {
    SplittableRandom random = new SplittableRandom(seed);
    float[][] x = new float[tokens][2880];
    for (float[] token : x) {
      for (int i = 0; i < token.length; i++) {
        token[i] = (float) random.nextDouble(-1, 1);
      }
    }
    String input = session.getInputNames().iterator().next();
    try (OnnxTensor tensor = OnnxTensor.createTensor(ENVIRONMENT, x)) {
      long start = System.nanoTime();
      session.run(Map.of(input, tensor)).close();
      return (System.nanoTime() - start) * 1e-6;
    }
  }

  private static double median(double[] values) {
    double[] sorted = values.clone();
    Arrays.sort(sorted);
    return sorted[sorted.length / 2];
  }
}
