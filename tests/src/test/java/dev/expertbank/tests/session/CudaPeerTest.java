package dev.expertbank.tests.session;

import static dev.expertbank.tests.session.SmallQMoe.ENVIRONMENT;
import static dev.expertbank.tests.session.SmallQMoe.EXPERTS;
import static dev.expertbank.tests.session.SmallQMoe.HIDDEN;
import static dev.expertbank.tests.session.SmallQMoe.node;
import static dev.expertbank.tests.session.SmallQMoe.rows;
import static dev.expertbank.tests.session.SmallQMoe.tokens;
import static org.assertj.core.api.Assertions.assertThat;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtProvider;
import ai.onnxruntime.OrtSession;
import ai.onnxruntime.providers.OrtCUDAProviderOptions;
import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.api.Registration;
import dev.expertbank.model.OnnxModelBuilder;
import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.spi.ElementType;
import dev.expertbank.tests.TestDevice;
import dev.expertbank.tests.cuda.RequiresGpu;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * QMoE nodes between nodes of ONNX Runtime's own CUDA provider, with tensors that stay on the GPU.
 * What the other nodes compute is exact, so the bits are those of a session without that provider.
 */
@RequiresGpu
@Timeout(value = 300, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class CudaPeerTest {
  private static final Map<String, String> BUDGET =
      Map.of(
          "memory.budget",
          Long.toString(2 * EXPERTS * TestDevice.slotBytes(SmallQMoe.EXPERT_BYTES)),
          "residency.policy",
          "whole-bank");

  private static final int[] TOKENS = {1, 2, 8, 9, 70, 200};

  @BeforeAll
  static void providerIsThere() {
    String reason =
        TestDevice.isHost()
            ? "the test device is the host; run with -Dexpertbank.test.device=cuda:0"
            : OrtEnvironment.getAvailableProviders().contains(OrtProvider.CUDA)
                ? ""
                : "this ONNX Runtime has no CUDA provider";
    if (!reason.isEmpty()) {
      System.out.println("CudaPeerTest is skipped: " + reason);
      Assumptions.abort(reason);
    }
  }

  /** Relu, QMoE, Relu, QMoE, Neg; the router's logits come from the graph's input. */
  private static byte[] chain() {
    OnnxModelBuilder graph = inputs("chain");
    graph.node("", "Relu", "first", Map.of(), List.of("x"), List.of("a"));
    node(graph, "a", "logits", "b");
    graph.node("", "Relu", "second", Map.of(), List.of("b"), List.of("c"));
    node(graph, "c", "logits", "d");
    return graph
        .node("", "Neg", "last", Map.of(), List.of("d"), List.of("y"))
        .output("y", ElementType.FLOAT, rows(HIDDEN))
        .toBytes();
  }

  /** The same after nodes that CUDA's provider does not have, so that tensors come from the CPU. */
  private static byte[] fedByTheCpu() {
    OnnxModelBuilder graph = inputs("fed");
    graph.node("", "Atan", "cpu_x", Map.of(), List.of("x"), List.of("a"));
    graph.node("", "Atan", "cpu_logits", Map.of(), List.of("logits"), List.of("l"));
    node(graph, "a", "l", "b");
    graph.node("", "Relu", "second", Map.of(), List.of("b"), List.of("c"));
    node(graph, "c", "l", "d");
    return graph
        .node("", "Atan", "cpu_y", Map.of(), List.of("d"), List.of("y"))
        .output("y", ElementType.FLOAT, rows(HIDDEN))
        .toBytes();
  }

  private static OnnxModelBuilder inputs(String name) {
    return SmallQMoe.weights(OnnxModelBuilder.named(name))
        .input("x", ElementType.FLOAT, rows(HIDDEN))
        .input("logits", ElementType.FLOAT, rows(EXPERTS));
  }

  /** A session with the provider, and ONNX Runtime's CUDA provider after it or not. */
  private record Open(
      OrtSession.SessionOptions options, Registration registration, OrtSession session)
      implements AutoCloseable {
    static Open of(byte[] model, boolean next, boolean cpuToo) throws OrtException {
      var options = new OrtSession.SessionOptions();
      Map<String, String> ours = new HashMap<>(BUDGET);
      ours.put("routing.semantics", "ort-cpu");
      ours.put("io", next ? "device" : "host");
      Registration registration =
          ExecutionProviders.require("CudaQMoE")
              .register(ENVIRONMENT, options, TestDevice.options(ours));
      if (next) {
        try (var cuda = new OrtCUDAProviderOptions(TestDevice.gpuNumber())) {
          options.addCUDA(cuda);
        }
        if (!cpuToo) {
          options.addConfigEntry("session.disable_cpu_ep_fallback", "1");
        }
      }
      return new Open(options, registration, ENVIRONMENT.createSession(model, options));
    }

    float[][] run(int count) throws OrtException {
      try (var x = OnnxTensor.createTensor(ENVIRONMENT, tokens(count, count));
          var logits = OnnxTensor.createTensor(ENVIRONMENT, logits(count));
          var result = session.run(Map.of("x", x, "logits", logits))) {
        return (float[][]) result.get(0).getValue();
      }
    }

    private static float[][] logits(int count) {
      float[][] logits = new float[count][EXPERTS];
      for (int t = 0; t < count; t++) {
        for (int e = 0; e < EXPERTS; e++) {
          logits[t][e] = (t * 5 + e * 3) % 7 - 3;
        }
      }
      return logits;
    }

    ResidencyMetrics metrics() {
      return registration.sessions().getFirst().metrics().orElseThrow();
    }

    @Override
    public void close() throws OrtException {
      session.close();
      registration.close();
      options.close();
    }
  }

  @Test
  void aChainStaysOnTheGpuAndHasTheSameBits() throws Exception {
    assertSameBits(chain(), false);
  }

  @Test
  void tensorsThatComeFromTheCpuAndGoThereHaveTheSameBits() throws Exception {
    assertSameBits(fedByTheCpu(), true);
  }

  private static void assertSameBits(byte[] model, boolean cpuToo) throws Exception {
    try (Open alone = Open.of(model, false, true);
        Open next = Open.of(model, true, cpuToo)) {
      for (int round = 0; round < 3; round++) {
        for (int count : TOKENS) {
          assertThat(next.run(count)).as("%d tokens", count).isDeepEqualTo(alone.run(count));
        }
      }
      assertThat(next.metrics().residentExperts()).isEqualTo(2 * EXPERTS);
      assertThat(next.metrics().totals().use()).isEqualTo(alone.metrics().totals().use());
      assertThat(next.metrics().totals().use().hits()).isPositive();
    }
  }

  @Test
  void runsOfSeveralThreadsHaveTheSameBits() throws Exception {
    List<float[][]> expected = new ArrayList<>();
    try (Open alone = Open.of(chain(), false, true)) {
      for (int count : TOKENS) {
        expected.add(alone.run(count));
      }
    }
    try (Open next = Open.of(chain(), true, false);
        var pool = Executors.newFixedThreadPool(TOKENS.length)) {
      List<Callable<Boolean>> tasks = new ArrayList<>();
      for (int i = 0; i < TOKENS.length; i++) {
        int count = TOKENS[i];
        float[][] output = expected.get(i);
        tasks.add(
            () -> {
              for (int run = 0; run < 100; run++) {
                assertThat(next.run(count)).isDeepEqualTo(output);
              }
              return true;
            });
      }
      for (Future<Boolean> task : pool.invokeAll(tasks)) {
        assertThat(task.get()).isTrue();
      }
    }
  }
}
