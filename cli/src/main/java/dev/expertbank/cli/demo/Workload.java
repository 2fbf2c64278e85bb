package dev.expertbank.cli.demo;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Consumer;

/**
 * Opens the model in one way and measures it. Every run has other tokens, so that routers choose
 * other experts and weights come from memory rather than from a cache; the tokens of a run are the
 * same for every arm.
 */
final class Workload {
  /** Tokens of a prefill run. */
  static final int BATCH_TOKENS = 64;

  private static final int WARM_UP_RUNS = 4;
  private static final int TOKEN_RUNS = 24;
  private static final int BATCH_RUNS = 5;

  private final OrtEnvironment environment;
  private final Path model;
  private final int threads;
  private final Consumer<String> progress;

  Workload(OrtEnvironment environment, Path model, int threads, Consumer<String> progress) {
    this.environment = environment;
    this.model = model;
    this.threads = threads;
    this.progress = progress;
  }

  ArmResult measure(Arm arm) {
    progress.accept(arm.title() + ": loading");
    try {
      return measureOpen(arm);
    } catch (OrtException | RuntimeException e) {
      progress.accept(arm.title() + ": failed, " + e.getMessage());
      return new ArmResult.Failed(arm, String.valueOf(e.getMessage()));
    }
  }

  private ArmResult measureOpen(Arm arm) throws OrtException {
    OptionalLong before = ProcessMemory.residentBytes();
    try (Arm.Opened opened = arm.open(environment, model, threads)) {
      OptionalLong after = ProcessMemory.residentBytes();
      OptionalLong added =
          before.isPresent() && after.isPresent()
              ? OptionalLong.of(Math.max(0, after.getAsLong() - before.getAsLong()))
              : OptionalLong.empty();
      progress.accept(arm.title() + ": loaded, running");
      OrtSession session = opened.session();
      List<float[]> outputs = new ArrayList<>();
      runs(session, 1, WARM_UP_RUNS, Optional.empty());
      double token = median(runs(session, 1, TOKEN_RUNS, Optional.of(outputs)));
      runs(session, BATCH_TOKENS, 1, Optional.empty());
      double batch = median(runs(session, BATCH_TOKENS, BATCH_RUNS, Optional.of(outputs)));
      return new ArmResult.Measured(
          arm,
          opened.startSeconds(),
          opened.loadSeconds(),
          added,
          token * 1e3,
          BATCH_TOKENS / batch,
          outputs,
          opened.registration().map(r -> r.sessions().getFirst().placement()));
    }
  }

  /** Seconds of each run. */
  private double[] runs(OrtSession session, int tokens, int count, Optional<List<float[]>> outputs)
      throws OrtException {
    double[] seconds = new double[count];
    for (int i = 0; i < count; i++) {
      try (Feeds feeds = Feeds.of(environment, session, tokens, 1000L * tokens + i)) {
        long start = System.nanoTime();
        try (OrtSession.Result result = session.run(feeds.tensors())) {
          seconds[i] = (System.nanoTime() - start) * 1e-9;
          outputs.ifPresent(list -> list.add(firstOutput(result)));
        }
      }
    }
    return seconds;
  }

  private static float[] firstOutput(OrtSession.Result result) {
    for (Map.Entry<String, ?> output : result) {
      if (output.getValue() instanceof OnnxTensor tensor) {
        FloatBuffer buffer = tensor.getFloatBuffer();
        if (buffer != null) {
          float[] values = new float[buffer.remaining()];
          buffer.get(values);
          return values;
        }
      }
    }
    return new float[0];
  }

  private static double median(double[] values) {
    double[] sorted = values.clone();
    Arrays.sort(sorted);
    return sorted[sorted.length / 2];
  }
}
