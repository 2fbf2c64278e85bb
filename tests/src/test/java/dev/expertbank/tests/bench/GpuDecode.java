package dev.expertbank.tests.bench;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtException;
import dev.expertbank.qmoe.device.cuda.CudaBandwidth;
import dev.expertbank.residency.ResidencyTotals;
import dev.expertbank.residency.simulation.RouteArchetype;
import java.util.ArrayList;
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
  private static final int COLD_TOKENS = 16;

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
        Bench.isHost()
            ? CudaBandwidth.UNKNOWN
            : CudaBandwidth.measure(Bench.device(), model.data());
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
      int[][][] routes = model.routes(RouteArchetype.named(name).orElseThrow(), warmUp + tokens, 1);
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
          new Arm(name, percent + " %", open.loadSeconds(), millis),
          after.use().hitBytes() - before.use().hitBytes(),
          after.use().missedBytes() - before.use().missedBytes(),
          after.moves().startedBytes() - before.moves().startedBytes());
    }
  }

  private void allCold(String name, int[][][] routes) throws OrtException {
    try (var feeds = model.tokens(routes);
        DecodeModel.Open open = model.open(Map.of("memory.budget", "off"))) {
      run(open, feeds.feeds().subList(0, COLD_WARM_UP_TOKENS));
      double[] millis =
          run(open, feeds.feeds().subList(COLD_WARM_UP_TOKENS, COLD_WARM_UP_TOKENS + COLD_TOKENS));
      report(
          new Arm(name, "off", open.loadSeconds(), millis),
          0,
          millis.length * model.bytesPerToken(),
          0);
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

  /** One line of the table. */
  private record Arm(String routes, String budget, double loadSeconds, double[] millis) {
    double meanMillis() {
      double sum = 0;
      for (double token : millis) {
        sum += token;
      }
      return sum / millis.length;
    }
  }

  private void report(Arm arm, long hitBytes, long missedBytes, long copiedBytes) {
    double count = arm.millis.length;
    double bound = bandwidth.boundMillis(hitBytes / count, missedBytes / count);
    double hitRate = (double) hitBytes / (hitBytes + missedBytes);
    System.out.printf(
        Locale.ROOT,
        "%-18s %6s %7.3f %8.1f %8.3f %8.3f %7.1f %9.4f %9.4f %9.3f %8.1f%%%n",
        arm.routes,
        arm.budget,
        arm.loadSeconds,
        1e3 / arm.meanMillis(),
        Bench.median(arm.millis),
        Bench.percentile(arm.millis, 99),
        100 * hitRate,
        missedBytes / count * 1e-9,
        copiedBytes / count * 1e-9,
        bound,
        100 * bound / arm.meanMillis());
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("routes", arm.routes);
    json.put("budget", arm.budget);
    json.put("loadSeconds", arm.loadSeconds);
    json.put("tokensPerSecond", 1e3 / arm.meanMillis());
    json.put("p50Millis", Bench.median(arm.millis));
    json.put("p99Millis", Bench.percentile(arm.millis, 99));
    json.put("byteHitRate", hitRate);
    json.put("readInPlaceBytesPerToken", missedBytes / count);
    json.put("copiedBytesPerToken", copiedBytes / count);
    json.put("boundMillis", bound);
    json.put("ofBound", bound / arm.meanMillis());
    arms.add(json);
  }
}
