package dev.expertbank.tests.bench;

import dev.expertbank.qmoe.device.cuda.CudaDevices;
import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResizeOutcome;
import dev.expertbank.residency.ResizeRequest;
import dev.expertbank.residency.ResizeRequest.Direction;
import dev.expertbank.residency.simulation.RouteArchetype;
import dev.expertbank.tests.TestDevice;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Shrinks the budget from 80 to 20 % of all experts and grows it back while tokens are decoded;
 * every output is compared, bit by bit, with that of a session in which every expert is resident.
 *
 * <p>Arguments, all optional: layers, tokens between two resizes.
 */
public final class GpuResize {
  private static final int LARGE_PERCENT = 80;
  private static final int SMALL_PERCENT = 20;
  private static final int MOST_TOKENS_TO_FILL = 400;

  private final DecodeModel model;
  private final DecodeModel.Tokens tokens;
  private final int third;
  private final List<Map<String, Object>> resizes = new ArrayList<>();

  private GpuResize(DecodeModel model, DecodeModel.Tokens tokens, int third) {
    this.model = model;
    this.tokens = tokens;
    this.third = third;
  }

  public static void main(String[] arguments) throws Exception {
    DecodeModel model = DecodeModel.ofLayers(Bench.argument(arguments, 0, DecodeModel.LAYERS));
    int third = Bench.argument(arguments, 1, 64);
    int[][][] routes =
        model.routes(RouteArchetype.named("gpt-oss-20b-like").orElseThrow(), 3 * third, 2);
    try (DecodeModel.Tokens tokens = model.tokens(routes)) {
      new GpuResize(model, tokens, third).run();
    }
  }

  private void run() throws Exception {
    short[][] expected = new short[3 * third][];
    long bank = allResident(expected);
    int different = 0;
    double[] millis = new double[3 * third];
    System.out.printf(
        "%-14s %10s %12s %12s %14s %14s%n",
        "resize", "ms", "achieved MiB", "held MiB", "free MiB", "free after");
    try (DecodeModel.Open open =
        model.open(Map.of("memory.budget", Long.toString(bank * LARGE_PERCENT / 100)))) {
      long step = bank * (LARGE_PERCENT - SMALL_PERCENT) / 100;
      CompletableFuture<Void> pending = CompletableFuture.completedFuture(null);
      for (int token = 0; token < expected.length; token++) {
        if (token == third) {
          pending = resize(open, new ResizeRequest(Direction.SHRINK, step));
        } else if (token == 2 * third) {
          pending.get(1, TimeUnit.MINUTES);
          pending = resize(open, new ResizeRequest(Direction.GROW, step));
        }
        long start = System.nanoTime();
        short[] output = open.run(tokens.feeds().get(token));
        millis[token] = Bench.secondsSince(start) * 1e3;
        different += Arrays.equals(output, expected[token]) ? 0 : 1;
      }
      pending.get(1, TimeUnit.MINUTES);
    }
    report(bank, millis, different);
  }

  /** Fills the outputs; returns what all experts take. */
  private long allResident(short[][] outputs) throws Exception {
    try (DecodeModel.Open open =
        model.open(
            Map.of(
                "memory.budget", "auto",
                "residency.policy", "whole-bank",
                "residency.byte-cap", "4GiB"))) {
      int experts = model.model().layers() * model.model().experts();
      for (int i = 0; open.metrics().residentExperts() < experts; i++) {
        if (i == MOST_TOKENS_TO_FILL) {
          throw new IllegalStateException(
              "after " + i + " tokens only " + open.metrics().residentExperts() + " are resident");
        }
        open.run(tokens.feeds().getFirst());
      }
      for (int token = 0; token < outputs.length; token++) {
        outputs[token] = open.run(tokens.feeds().get(token));
      }
      return open.metrics().budgetBytes();
    }
  }

  /** Asks for it on a thread of its own, while the next token is computed. */
  private CompletableFuture<Void> resize(DecodeModel.Open open, ResizeRequest request)
      throws InterruptedException {
    CountDownLatch asked = new CountDownLatch(1);
    long freeBefore = freeBytes();
    CompletableFuture<Void> done =
        CompletableFuture.runAsync(
            () -> {
              long start = System.nanoTime();
              CompletableFuture<ResizeOutcome> outcome = open.provider().resize(request);
              asked.countDown();
              ResizeOutcome achieved = outcome.join();
              double millis = Bench.secondsSince(start) * 1e3;
              line(achieved, millis, open.metrics(), freeBefore, freeBytes());
            });
    asked.await();
    return done;
  }

  private void line(
      ResizeOutcome outcome, double millis, ResidencyMetrics metrics, long before, long after) {
    System.out.printf(
        Locale.ROOT,
        "%-14s %10.2f %12d %12d %14d %14d%n",
        outcome.request().direction(),
        millis,
        outcome.achievedBytes() >> 20,
        metrics.heldBytes() >> 20,
        before >> 20,
        after >> 20);
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("direction", outcome.request().direction().toString());
    json.put("millis", millis);
    json.put("extent", outcome.extent().toString());
    json.put("achievedBytes", outcome.achievedBytes());
    json.put("heldBytes", metrics.heldBytes());
    json.put("freeBytesBefore", before);
    json.put("freeBytesAfter", after);
    resizes.add(json);
  }

  /** Of the whole device; the host's is not told. */
  private static long freeBytes() {
    return TestDevice.isHost() ? 0 : CudaDevices.freeBytes(TestDevice.name());
  }

  private void report(long bank, double[] millis, int different) throws Exception {
    Map<String, Object> json = new LinkedHashMap<>();
    for (int part = 0; part < 3; part++) {
      double[] some = Arrays.copyOfRange(millis, part * third, (part + 1) * third);
      String budget = (part == 1 ? SMALL_PERCENT : LARGE_PERCENT) + " %";
      System.out.printf(
          Locale.ROOT,
          "%d tokens at %s: p50 %.3f ms, slowest %.3f ms%n",
          third,
          budget,
          Bench.median(some),
          Bench.percentile(some, 100));
      json.put(
          "part" + (part + 1),
          Map.of(
              "budget", budget,
              "p50Millis", Bench.median(some),
              "slowestMillis", Bench.percentile(some, 100)));
    }
    System.out.printf(
        "%d of %d outputs differ from those with everything resident%n", different, millis.length);
    json.put("bankBytes", bank);
    json.put("tokens", millis.length);
    json.put("differentOutputs", different);
    json.put("resizes", resizes);
    Bench.write(json);
    if (different > 0) {
      throw new IllegalStateException("outputs depend on residency");
    }
  }
}
