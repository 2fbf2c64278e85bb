package dev.expertbank.tests.bench;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtException;
import dev.expertbank.qmoe.device.cuda.CudaBandwidth;
import dev.expertbank.residency.ResidencyTotals;
import dev.expertbank.residency.simulation.RouteArchetype;
import dev.expertbank.tests.TestDevice;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Decodes with gpt-oss-20b's geometry at several budgets, and says how near that is to what memory
 * and link allow: the larger of the times that the resident bytes take from device memory and the
 * cold bytes over PCIe, at the rates that a kernel which only reads has reached in the same
 * process.
 *
 * <p>Arguments, all optional: layers, warm-up tokens, measured tokens, policy.
 */
public final class GpuDecode {
  private static final List<String> ARCHETYPES = List.of("gpt-oss-20b-like", "granite-like");
  private static final int[] BUDGET_PERCENT = {100, 50, 25, 10};
  private static final int COLD_WARM_UP_TOKENS = 4;
  private static final int COLD_TOKENS = 32;
  private static final int SETTLING_TOKENS = 64;

  /** So that the compiler of the JVM has done its work before anything is measured. */
  private static final double SETTLING_SECONDS = 3;

  private final DecodeModel model;
  private final CudaBandwidth bandwidth;
  private final int warmUp;
  private final int tokens;
  private final String policy;
  private final List<Map<String, Object>> arms = new ArrayList<>();

  private GpuDecode(
      DecodeModel model, CudaBandwidth bandwidth, int warmUp, int tokens, String policy) {
    this.model = model;
    this.bandwidth = bandwidth;
    this.warmUp = warmUp;
    this.tokens = tokens;
    this.policy = policy;
  }

  public static void main(String[] arguments) throws Exception {
    DecodeModel model = DecodeModel.ofLayers(Bench.argument(arguments, 0, DecodeModel.LAYERS));
    CudaBandwidth bandwidth =
        TestDevice.isHost()
            ? CudaBandwidth.UNKNOWN
            : CudaBandwidth.measure(TestDevice.name(), model.data());
    new GpuDecode(
            model,
            bandwidth,
            Bench.argument(arguments, 1, 128),
            Bench.argument(arguments, 2, 64),
            arguments.length > 3 ? arguments[3] : "adaptive")
        .run();
  }

  private void run() throws Exception {
    System.out.println(bandwidth);
    long bank;
    try (DecodeModel.Open open = model.open(Map.of("memory.budget", "auto"))) {
      bank = open.metrics().budgetBytes();
      System.out.printf(
          "first session of the process: %.3f s; %d MiB of slots hold every expert%n",
          open.loadSeconds(), bank >> 20);
      System.out.println("cold tier: " + open.provider().weights());
      settle(open);
    }
    System.out.printf(
        "%-18s %6s %7s %8s %8s %8s %7s %9s %9s %9s %9s%n",
        "routes",
        "budget",
        "load s",
        "tok/s",
        "p50 ms",
        "p99 ms",
        "hit %",
        "read GB/t",
        "copy GB/t",
        "bound ms",
        "of bound");
    for (String name : ARCHETYPES) {
      int[][][] routes =
          model.routes(
              RouteArchetype.named(name).orElseThrow(),
              Math.max(warmUp + tokens, COLD_WARM_UP_TOKENS + COLD_TOKENS),
              1);
      for (int percent : BUDGET_PERCENT) {
        withBudget(name, routes, percent, bank * percent / 100);
      }
      allCold(name, routes);
    }
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("layers", model.model().layers());
    json.put("policy", policy);
    json.put("warmUpTokens", warmUp);
    json.put("tokens", tokens);
    json.put("bankBytes", bank);
    json.put("bandwidth", bandwidth.json());
    json.put("arms", arms);
    Bench.write(json);
  }

  private void settle(DecodeModel.Open open) throws OrtException {
    RouteArchetype routes = RouteArchetype.named(ARCHETYPES.getFirst()).orElseThrow();
    long start = System.nanoTime();
    try (var feeds = model.tokens(model.routes(routes, SETTLING_TOKENS, 2))) {
      while (Bench.secondsSince(start) < SETTLING_SECONDS) {
        run(open, feeds.feeds());
      }
    }
  }

  private void withBudget(String name, int[][][] routes, int percent, long budget)
      throws OrtException {
    try (var feeds = model.tokens(routes);
        DecodeModel.Open open =
            model.open(
                Map.of("memory.budget", Long.toString(budget), "residency.policy", policy))) {
      run(open, feeds.feeds().subList(0, warmUp));
      ResidencyTotals before = open.metrics().totals();
      double[] millis = run(open, feeds.feeds().subList(warmUp, warmUp + tokens));
      ResidencyTotals after = open.metrics().totals();
      report(
          new Arm(
              name,
              percent + " %",
              open.loadSeconds(),
              after.use().hitBytes() - before.use().hitBytes(),
              after.use().missedBytes() - before.use().missedBytes(),
              after.moves().startedBytes() - before.moves().startedBytes()),
          millis);
    }
  }

  private void allCold(String name, int[][][] routes) throws OrtException {
    try (var feeds = model.tokens(Arrays.copyOf(routes, COLD_WARM_UP_TOKENS + COLD_TOKENS));
        DecodeModel.Open open = model.open(Map.of("memory.budget", "off"))) {
      run(open, feeds.feeds().subList(0, COLD_WARM_UP_TOKENS));
      double[] millis = run(open, feeds.feeds().subList(COLD_WARM_UP_TOKENS, feeds.feeds().size()));
      report(
          new Arm(name, "off", open.loadSeconds(), 0, COLD_TOKENS * model.bytesPerToken(), 0),
          millis);
    }
  }

  /** Milliseconds of each token. */
  private static double[] run(DecodeModel.Open open, List<Map<String, OnnxTensor>> feeds)
      throws OrtException {
    double[] millis = new double[feeds.size()];
    for (int token = 0; token < millis.length; token++) {
      long start = System.nanoTime();
      open.session().run(feeds.get(token)).close();
      millis[token] = Bench.secondsSince(start) * 1e3;
    }
    return millis;
  }

  /** What one arm of the comparison has used and moved while it was measured. */
  private record Arm(
      String routes,
      String budget,
      double loadSeconds,
      long hitBytes,
      long missedBytes,
      long copiedBytes) {
    double hitRate() {
      return (double) hitBytes / (hitBytes + missedBytes);
    }
  }

  private void report(Arm arm, double[] millis) {
    int count = millis.length;
    double mean = Arrays.stream(millis).average().orElseThrow();
    double bound =
        bandwidth.boundMillis((double) arm.hitBytes / count, (double) arm.missedBytes / count);
    System.out.printf(
        Locale.ROOT,
        "%-18s %6s %7.3f %8.1f %8.3f %8.3f %7.1f %9.4f %9.4f %9.3f %8.1f%%%n",
        arm.routes,
        arm.budget,
        arm.loadSeconds,
        1e3 / mean,
        Bench.median(millis),
        Bench.percentile(millis, 99),
        100 * arm.hitRate(),
        arm.missedBytes * 1e-9 / count,
        arm.copiedBytes * 1e-9 / count,
        bound,
        100 * bound / mean);
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("routes", arm.routes);
    json.put("budget", arm.budget);
    json.put("loadSeconds", arm.loadSeconds);
    json.put("tokensPerSecond", 1e3 / mean);
    json.put("p50Millis", Bench.median(millis));
    json.put("p99Millis", Bench.percentile(millis, 99));
    json.put("byteHitRate", arm.hitRate());
    json.put("readInPlaceBytesPerToken", (double) arm.missedBytes / count);
    json.put("copiedBytesPerToken", (double) arm.copiedBytes / count);
    json.put("boundMillis", bound);
    json.put("ofBound", bound / mean);
    arms.add(json);
  }
}
