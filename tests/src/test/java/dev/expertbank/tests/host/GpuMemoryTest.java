package dev.expertbank.tests.host;

import static dev.expertbank.tests.host.GpuReluProviderFactory.SEEN;
import static dev.expertbank.tests.host.HostScenarios.run;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.api.Registration;
import dev.expertbank.model.Dimension;
import dev.expertbank.model.OnnxModelBuilder;
import dev.expertbank.ort.FakeCuda;
import dev.expertbank.spi.CudaPeer;
import dev.expertbank.spi.ElementType;
import java.nio.FloatBuffer;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A provider that wants its tensors on a GPU, with and without the provider that has one. */
class GpuMemoryTest {
  private static final Dimension THREE = Dimension.of(3);

  private final OrtEnvironment environment = OrtEnvironment.getEnvironment();

  @BeforeEach
  void forgetWhatWasSeen() {
    SEEN.clear();
  }

  @Test
  void withoutTheCudaProviderTheSessionIsRefused() throws Exception {
    try (var options = new OrtSession.SessionOptions();
        var registration = register(options, Map.of())) {
      assertThatThrownBy(() -> environment.createSession(SmallModels.chain("Relu"), options))
          .isInstanceOf(OrtException.class)
          .hasMessageContaining(
              "[io.device] ONNX Runtime's CUDA provider is not in this session: add it after this"
                  + " provider (options.addCUDA) or use io=host");
      assertThat(registration.sessions()).isEmpty();
    }
    assertThat(SEEN).containsExactly("close");
    assertThat(GpuReluProviderFactory.cudaPeer).isEqualTo(new CudaPeer.Absent());
  }

  @Test
  void anotherGpuThanTheCudaProvidersIsRefused() throws Exception {
    try (var options = new OrtSession.SessionOptions();
        var registration = register(options, Map.of("gpu", "1"))) {
      FakeCuda.addTo(environment, options);
      assertThatThrownBy(() -> environment.createSession(SmallModels.chain("Relu"), options))
          .hasMessageContaining(
              "[io.device] ONNX Runtime's CUDA provider of this session is on GPU 0 and this"
                  + " provider on GPU 1: use one GPU for both or io=host");
      assertThat(registration.sessions()).isEmpty();
    }
    assertThat(SEEN).containsExactly("close");
  }

  @Test
  void tensorsStayOnTheGpu() throws Exception {
    int before = FakeCuda.liveAllocations();
    try (var options = new OrtSession.SessionOptions();
        var registration = register(options, Map.of())) {
      FakeCuda.addTo(environment, options);
      try (var session = environment.createSession(SmallModels.chain("Relu", "Relu"), options)) {
        assertThat(GpuReluProviderFactory.cudaPeer).isEqualTo(new CudaPeer.Present(0));
        assertThat(run(session, 1, -2, 3)).containsExactly(1, 0, 3);
        assertThat(registration.sessions().getFirst().boundaries()).isEqualTo(1);
      }
    }
    assertThat(SEEN).containsExactly("relu gpu0 gpu0 stream 0", "relu gpu0 gpu0 stream 0", "close");
    assertThat(FakeCuda.liveAllocations()).isEqualTo(before);
  }

  @Test
  void whatNodesOnTheCpuReadAndWriteIsCopied() throws Exception {
    try (var options = new OrtSession.SessionOptions();
        var registration = register(options, Map.of())) {
      FakeCuda.addTo(environment, options);
      try (var session =
          environment.createSession(SmallModels.chain("Neg", "Relu", "Neg"), options)) {
        assertThat(run(session, 1, -2, 3)).containsExactly(-0f, -2, -0f);
        try (var none = OnnxTensor.createTensor(environment, FloatBuffer.allocate(0), new long[1]);
            var result = session.run(Map.of("x", none))) {
          assertThat(((OnnxTensor) result.get(0)).getInfo().getShape()).containsExactly(0);
        }
        assertThat(registration.sessions().getFirst().placement().claimed()).hasSize(1);
      }
    }
    assertThat(SEEN)
        .containsExactly(
            "copy host gpu0",
            "relu gpu0 gpu0 stream 0",
            "copy gpu0 host",
            "relu gpu0 gpu0 stream 0", // of the run without elements, which has nothing to copy
            "close");
  }

  @Test
  void anInputThatBothSidesUseIsCopiedForOne() throws Exception {
    byte[] model =
        OnnxModelBuilder.named("fork")
            .input("x", ElementType.FLOAT, THREE)
            .output("y", ElementType.FLOAT, THREE)
            .node("", "Neg", "cpu", Map.of(), List.of("x"), List.of("negated"))
            .node("", "Relu", "gpu", Map.of(), List.of("x"), List.of("clamped"))
            .node("", "Add", "sum", Map.of(), List.of("negated", "clamped"), List.of("y"))
            .toBytes();
    try (var options = new OrtSession.SessionOptions();
        var registration = register(options, Map.of())) {
      FakeCuda.addTo(environment, options);
      try (var session = environment.createSession(model, options)) {
        assertThat(run(session, 1, -2, 3)).containsExactly(0, 2, 0);
        assertThat(registration.sessions()).hasSize(1);
      }
    }
    assertThat(SEEN)
        .containsExactly("copy host gpu0", "relu gpu0 gpu0 stream 0", "copy gpu0 host", "close");
  }

  @Test
  void theBodyOfAnIfIsCopiedToAndFrom() throws Exception {
    OnnxModelBuilder then =
        OnnxModelBuilder.named("then")
            .node("", "Relu", "relu", Map.of(), List.of("negated"), List.of("clamped"))
            .node("", "Neg", "after", Map.of(), List.of("clamped"), List.of("then_y"))
            .output("then_y", ElementType.FLOAT, THREE);
    OnnxModelBuilder orElse =
        OnnxModelBuilder.named("else")
            .node("", "Abs", "abs", Map.of(), List.of("negated"), List.of("else_y"))
            .output("else_y", ElementType.FLOAT, THREE);
    byte[] model =
        OnnxModelBuilder.named("outer")
            .input("x", ElementType.FLOAT, THREE)
            .input("condition", ElementType.BOOL)
            .output("y", ElementType.FLOAT, THREE)
            .node("", "Neg", "before", Map.of(), List.of("x"), List.of("negated"))
            .node(
                "",
                "If",
                "branch",
                Map.of(),
                Map.of("then_branch", then, "else_branch", orElse),
                List.of("condition"),
                List.of("y"))
            .toBytes();
    try (var options = new OrtSession.SessionOptions();
        var registration = register(options, Map.of())) {
      FakeCuda.addTo(environment, options);
      try (var session = environment.createSession(model, options);
          var x = OnnxTensor.createTensor(environment, new float[] {1, -2, 3});
          var condition = OnnxTensor.createTensor(environment, true);
          var result = session.run(Map.of("x", x, "condition", condition))) {
        assertThat((float[]) result.get(0).getValue()).containsExactly(-0f, -2, -0f);
        assertThat(registration.sessions().getFirst().boundaries()).isEqualTo(1);
      }
    }
    // What the body takes from outside is copied by ONNX Runtime itself, like an input of the
    // graph.
    assertThat(SEEN).containsExactly("relu gpu0 gpu0 stream 0", "copy gpu0 host", "close");
  }

  @Test
  void anAllocatorThatIsMissingAllTheSameFailsTheRunAndNotTheProcess() throws Exception {
    try (var options = new OrtSession.SessionOptions();
        var registration = register(options, Map.of())) {
      options.addConfigEntry("ep.cuda.device_id", "0"); // as if the provider were there
      try (var session = environment.createSession(SmallModels.chain("Neg", "Relu"), options)) {
        assertThatThrownBy(() -> run(session, 1, -2, 3))
            .hasMessageContaining(
                "[io.device] ONNX Runtime could not allocate output 0 next to GPU memory; if its"
                    + " CUDA provider is not in this session, add it after this provider"
                    + " (options.addCUDA) or use io=host. ONNX Runtime's own text:"
                    + " KernelContext_GetOutput failed: ")
            .hasMessageContaining("Failed to get allocator for Device");
        assertThat(registration.sessions().getFirst().boundaries()).isEqualTo(1);
      }
      try (var session = environment.createSession(SmallModels.chain("Relu"), options)) {
        assertThatThrownBy(() -> run(session, 1, -2, 3))
            .as("ONNX Runtime copies the input before it asks a provider for anything")
            .hasMessageContaining("Failed to find allocator for device Device:[DeviceType:1");
      }
    }
  }

  private Registration register(OrtSession.SessionOptions options, Map<String, String> more)
      throws OrtException {
    return ExecutionProviders.require("GpuRelu").register(environment, options, more);
  }
}
