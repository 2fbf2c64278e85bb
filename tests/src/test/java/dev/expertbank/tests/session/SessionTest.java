package dev.expertbank.tests.session;

import static dev.expertbank.tests.session.SmallQMoe.ENVIRONMENT;
import static dev.expertbank.tests.session.SmallQMoe.run;
import static dev.expertbank.tests.session.SmallQMoe.tokens;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.PlacementReport.NodePlacement;
import dev.expertbank.tests.TestDevice;
import dev.expertbank.tests.session.SmallQMoe.Configure;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SessionTest {
  @TempDir Path directory;

  private Path model;
  private Path data;

  @BeforeEach
  void writeModel() {
    model = SmallQMoe.write(directory, 2);
    data = directory.resolve("small.onnx.data");
  }

  @Test
  void matchesStockOnnxRuntime() throws Exception {
    for (int count : new int[] {1, 5, 70}) {
      float[][] x = tokens(count, count);
      try (var stockOptions = new OrtSession.SessionOptions();
          var stock = ENVIRONMENT.createSession(model.toString(), stockOptions);
          var open = SmallQMoe.open(model, Map.of())) {
        assertClose(run(open.session(), x), run(stock, x));
      }
    }
  }

  @Test
  void aModelFromBytesFindsItsDataInTheFolderOfTheSessionOptions() throws Exception {
    byte[] bytes = Files.readAllBytes(model);
    float[][] x = tokens(3, 1);
    try (var fromFile = SmallQMoe.open(model, Map.of());
        var fromBytes =
            SmallQMoe.open(
                options -> ENVIRONMENT.createSession(bytes, options),
                Map.of(),
                options ->
                    options.addConfigEntry(
                        "session.model_external_initializers_file_folder_path",
                        directory.toString()))) {
      assertThat(run(fromBytes.session(), x)).isDeepEqualTo(run(fromFile.session(), x));
    }
  }

  @Test
  void aModelWithARelativePathFindsItsData() throws Exception {
    Path relative = Path.of("").toAbsolutePath().relativize(model);
    assertThat(relative.isAbsolute()).isFalse();
    float[][] x = tokens(3, 1);
    try (var absolute = SmallQMoe.open(model, Map.of());
        var open = SmallQMoe.open(relative, Map.of())) {
      assertThat(run(open.session(), x)).isDeepEqualTo(run(absolute.session(), x));
    }
  }

  @Test
  void outputBitsDoNotDependOnThreadsOrOnHowWeightsAreRead() throws Exception {
    float[][] x = tokens(70, 3);
    float[][] expected;
    try (var open = SmallQMoe.open(model, Map.of())) {
      expected = run(open.session(), x);
    }
    for (int threads : new int[] {1, 2, 5}) {
      Configure configure = options -> options.setIntraOpNumThreads(threads);
      try (var open =
          SmallQMoe.open(
              options -> ENVIRONMENT.createSession(model.toString(), options),
              Map.of("weights.access", threads == 2 ? "copy" : "map"),
              configure)) {
        assertThat(run(open.session(), x)).isDeepEqualTo(expected);
      }
    }
  }

  @Test
  void concurrentRunsOfOneSessionDoNotDisturbEachOther() throws Exception {
    try (var open = SmallQMoe.open(model, Map.of());
        var pool = Executors.newFixedThreadPool(4)) {
      List<Callable<Boolean>> tasks = new ArrayList<>();
      for (int t = 0; t < 4; t++) {
        float[][] x = tokens(1 + 9 * t, t);
        float[][] expected = run(open.session(), x);
        tasks.add(
            () -> {
              for (int i = 0; i < 100; i++) {
                assertThat(run(open.session(), x)).isDeepEqualTo(expected);
              }
              return true;
            });
      }
      for (Future<Boolean> result : pool.invokeAll(tasks)) {
        assertThat(result.get()).isTrue();
      }
    }
  }

  @Test
  void twoProvidersOfDifferentKindsWorkInOneSession() throws Exception {
    try (var options = new OrtSession.SessionOptions();
        var qmoe =
            ExecutionProviders.require("CudaQMoE")
                .register(ENVIRONMENT, options, TestDevice.options());
        var relu =
            ExecutionProviders.require("JavaRelu").register(ENVIRONMENT, options, Map.of())) {
      byte[] bytes =
          SmallQMoe.node(
                  SmallQMoe.weights(dev.expertbank.model.OnnxModelBuilder.named("both"))
                      .input("x", dev.expertbank.spi.ElementType.FLOAT, SmallQMoe.rows(64))
                      .input("router", dev.expertbank.spi.ElementType.FLOAT, SmallQMoe.rows(8))
                      .node("", "Relu", "relu", Map.of(), List.of("x"), List.of("positive"))
                      .output("y", dev.expertbank.spi.ElementType.FLOAT, SmallQMoe.rows(64)),
                  "positive",
                  "router",
                  "y")
              .toBytes();
      try (var session = ENVIRONMENT.createSession(bytes, options)) {
        assertThat(session.getInputNames()).contains("x", "router");
        assertThat(claimed(qmoe.sessions().getFirst().placement().claimed()))
            .containsExactly("qmoe-y");
        assertThat(claimed(relu.sessions().getFirst().placement().claimed()))
            .containsExactly("relu");
      }
    }
  }

  private static List<String> claimed(List<NodePlacement> nodes) {
    return nodes.stream().map(NodePlacement::node).toList();
  }

  @Test
  void aWeightFileThatIsTruncatedFailsTheNextRunByName() throws Exception {
    try (var open = SmallQMoe.open(model, Map.of("weights.access", "copy"))) {
      run(open.session(), tokens(1, 1));
      try (FileChannel channel = FileChannel.open(data, StandardOpenOption.WRITE)) {
        channel.truncate(4096);
      }
      run(open.session(), tokens(1, 1));
      assertThatThrownBy(() -> run(open.session(), tokens(1, 1)))
          .isInstanceOf(OrtException.class)
          .hasMessageContaining("[weights.changed]")
          .hasMessageContaining(data.getFileName().toString());
    }
  }

  @Test
  void aWeightFileThatIsOverwrittenFailsTheNextRunByName() throws Exception {
    try (var open = SmallQMoe.open(model, Map.of())) {
      Files.setLastModifiedTime(data, FileTime.fromMillis(1_000_000));
      run(open.session(), tokens(1, 1));
      assertThatThrownBy(() -> run(open.session(), tokens(1, 1)))
          .hasMessageContaining("[weights.changed]");
    }
  }

  @Test
  void aWeightFileThatIsReplacedOrDeletedStaysReadable() throws Exception {
    float[][] x = tokens(2, 1);
    try (var open = SmallQMoe.open(model, Map.of())) {
      float[][] expected = run(open.session(), x);
      Files.move(data, directory.resolve("elsewhere"));
      assertThat(run(open.session(), x)).isDeepEqualTo(expected);
      Files.write(data, new byte[10]);
      assertThat(run(open.session(), x)).isDeepEqualTo(expected);
      assertThat(run(open.session(), x)).isDeepEqualTo(expected);
    }
  }

  @Test
  void aDataFileThatIsTooShortIsRefusedWhenTheSessionIsCreated() throws Exception {
    try (FileChannel channel = FileChannel.open(data, StandardOpenOption.WRITE)) {
      channel.truncate(channel.size() / 2);
    }
    assertThatThrownBy(() -> SmallQMoe.open(model, Map.of()))
        .isInstanceOf(OrtException.class)
        .hasMessageContaining("small.onnx.data");
  }

  @Test
  void aDeviceThatThereIsNotIsAnErrorThatListsTheDevicesThereAre() {
    assertThatThrownBy(() -> SmallQMoe.open(model, Map.of("device", "cuda:999")))
        .isInstanceOf(OrtException.class)
        .hasMessageContaining("[device.unavailable] device 'cuda:999' is not available: ")
        .hasMessageContaining("; available devices are ")
        .hasMessageContaining("host");
  }

  @Test
  void badOptionsListWhatIsValid() {
    assertThatThrownBy(() -> SmallQMoe.open(model, Map.of("device", "tpu")))
        .isInstanceOf(EpException.class)
        .hasMessage("option device: 'tpu' is not valid; use auto, host or cuda:<number>");
    assertThatThrownBy(() -> SmallQMoe.open(model, Map.of("pin.limit", "-1")))
        .hasMessage(
            "option pin.limit: '-1' is not valid; use auto or a number of bytes such as 8GiB,"
                + " 512MiB, 64KiB or 1048576");
    assertThatThrownBy(() -> SmallQMoe.open(model, Map.of("routing.semantics", "cuda")))
        .hasMessage(
            "option routing.semantics: 'cuda' is not valid; use one of auto, ort-cpu, ort-cuda");
    assertThatThrownBy(() -> SmallQMoe.open(model, Map.of("budget", "1GiB")))
        .hasMessage(
            "unknown option 'budget'; valid options are device, fallback, io, memory.budget,"
                + " pin.limit, prefill.streaming, residency.byte-cap, residency.pin.budget,"
                + " residency.pin.keys, residency.pin.scan-resistant, residency.pin.threshold,"
                + " residency.policy, residency.profile.load, residency.profile.save,"
                + " routes.record, routing.semantics, weights.access");
  }

  @Test
  void shapesThatOnlyARunShowsAreChecked() throws Exception {
    byte[] bytes =
        SmallQMoe.node(
                SmallQMoe.weights(dev.expertbank.model.OnnxModelBuilder.named("dynamic"))
                    .input("x", dev.expertbank.spi.ElementType.FLOAT, SmallQMoe.rows(64))
                    .input(
                        "router",
                        dev.expertbank.spi.ElementType.FLOAT,
                        dev.expertbank.model.Dimension.symbolic("rows"),
                        dev.expertbank.model.Dimension.symbolic("width"))
                    .output("y", dev.expertbank.spi.ElementType.FLOAT, SmallQMoe.rows(64)),
                "x",
                "router",
                "y")
            .toBytes();
    try (var open = SmallQMoe.open(bytes)) {
      assertThatThrownBy(() -> runTwo(open.session(), new float[3][64], new float[3][7]))
          .hasMessageContaining("[qmoe.shape] router_probs")
          .hasMessageContaining("last of them 8")
          .hasMessageContaining("last dimension 7");
      assertThatThrownBy(() -> runTwo(open.session(), new float[3][64], new float[2][8]))
          .hasMessageContaining("[qmoe.shape] router_probs has 2 rows, input has 3");
      runTwo(open.session(), new float[3][64], new float[3][8]);
    }
  }

  private static void runTwo(OrtSession session, float[][] x, float[][] router)
      throws OrtException {
    try (var input = ai.onnxruntime.OnnxTensor.createTensor(ENVIRONMENT, x);
        var logits = ai.onnxruntime.OnnxTensor.createTensor(ENVIRONMENT, router);
        var result = session.run(Map.of("x", input, "router", logits))) {
      assertThat(result.size()).isEqualTo(1);
    }
  }

  private static void assertClose(float[][] actual, float[][] expected) {
    assertThat(actual).hasDimensions(expected.length, expected[0].length);
    double largest = 0;
    double worst = 0;
    for (int t = 0; t < expected.length; t++) {
      for (int i = 0; i < expected[t].length; i++) {
        largest = Math.max(largest, Math.abs(expected[t][i]));
        worst = Math.max(worst, Math.abs(actual[t][i] - expected[t][i]));
      }
    }
    assertThat(worst).isLessThan(1e-5 * largest);
  }
}
