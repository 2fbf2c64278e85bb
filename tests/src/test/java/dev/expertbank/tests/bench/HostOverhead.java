package dev.expertbank.tests.bench;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtSession;
import com.sun.management.ThreadMXBean;
import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.model.Dimension;
import dev.expertbank.model.OnnxModelBuilder;
import dev.expertbank.spi.ElementType;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * What a node costs that a Java provider claims: the same run with a one-element Relu on ONNX
 * Runtime's CPU provider and on a Java provider, in turns, so that drift hits both alike. Prints
 * the time and the Java heap bytes per run, for one node and for 24, and the cost of one node more.
 */
public final class HostOverhead {
  private static final OrtEnvironment ENVIRONMENT = OrtEnvironment.getEnvironment();
  private static final int WARM_UP_RUNS = 60_000;
  private static final int ROUNDS = 60;
  private static final int RUNS_PER_ROUND = 1_000;

  private HostOverhead() {}

  public static void main(String[] arguments) throws Exception {
    System.out.printf(
        "%-8s %14s %14s %8s %14s %14s%n",
        "nodes", "CPU EP ns/run", "Java EP ns/run", "ratio", "CPU EP B/run", "Java EP B/run");
    double[] one = measure(1);
    double[] many = measure(24);
    System.out.printf(
        "one node more: CPU EP %.0f ns, Java EP %.0f ns%n",
        (many[0] - one[0]) / 23, (many[1] - one[1]) / 23);
  }

  private static double[] measure(int nodes) throws Exception {
    byte[] model = chain(nodes);
    try (var cpuOptions = options();
        var javaOptions = options();
        var registration =
            ExecutionProviders.require("JavaRelu").register(ENVIRONMENT, javaOptions, Map.of());
        var cpu = ENVIRONMENT.createSession(model, cpuOptions);
        var java = ENVIRONMENT.createSession(model, javaOptions);
        var x = OnnxTensor.createTensor(ENVIRONMENT, new float[] {-1})) {
      int claimed = registration.sessions().getFirst().placement().claimed().size();
      if (claimed != nodes) {
        throw new IllegalStateException("claimed " + claimed + " of " + nodes + " nodes");
      }
      Map<String, OnnxTensor> feed = Map.of("x", x);
      run(cpu, feed, WARM_UP_RUNS);
      run(java, feed, WARM_UP_RUNS);
      double[] cpuNanos = new double[ROUNDS];
      double[] javaNanos = new double[ROUNDS];
      for (int round = 0; round < ROUNDS; round++) {
        cpuNanos[round] = run(cpu, feed, RUNS_PER_ROUND);
        javaNanos[round] = run(java, feed, RUNS_PER_ROUND);
      }
      double[] medians = {median(cpuNanos), median(javaNanos)};
      System.out.printf(
          "%-8d %14.0f %14.0f %8.2f %14d %14d%n",
          nodes,
          medians[0],
          medians[1],
          medians[1] / medians[0],
          heapBytes(cpu, feed),
          heapBytes(java, feed));
      return medians;
    }
  }

  private static OrtSession.SessionOptions options() throws Exception {
    var options = new OrtSession.SessionOptions();
    options.setIntraOpNumThreads(1);
    return options;
  }

  /** Nanoseconds per run. */
  private static double run(OrtSession session, Map<String, OnnxTensor> feed, int runs)
      throws Exception {
    long start = System.nanoTime();
    for (int i = 0; i < runs; i++) {
      session.run(feed).close();
    }
    return (double) (System.nanoTime() - start) / runs;
  }

  private static long heapBytes(OrtSession session, Map<String, OnnxTensor> feed) throws Exception {
    var threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    long before = threads.getCurrentThreadAllocatedBytes();
    run(session, feed, RUNS_PER_ROUND);
    return (threads.getCurrentThreadAllocatedBytes() - before) / RUNS_PER_ROUND;
  }

  private static double median(double[] values) {
    double[] sorted = values.clone();
    Arrays.sort(sorted);
    return sorted[sorted.length / 2];
  }

  private static byte[] chain(int nodes) {
    OnnxModelBuilder model =
        OnnxModelBuilder.named("chain")
            .input("x", ElementType.FLOAT, Dimension.of(1))
            .output("y", ElementType.FLOAT, Dimension.of(1));
    for (int i = 0; i < nodes; i++) {
      String from = i == 0 ? "x" : "v" + i;
      String to = i == nodes - 1 ? "y" : "v" + (i + 1);
      model.node("", "Relu", "n" + i, Map.of(), List.of(from), List.of(to));
    }
    return model.toBytes();
  }
}
