package dev.expertbank.cli.demo;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtLoggingLevel;
import dev.expertbank.model.ModelGeometry;
import dev.expertbank.model.OnnxModelReader;
import dev.expertbank.model.QMoeNode;
import dev.expertbank.model.SyntheticModel;
import dev.expertbank.model.SyntheticModelWriter;
import dev.expertbank.model.cli.ExitCode;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.Printable;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.RoutingSemantics;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code qmoe demo}: the main job, beside what ONNX Runtime does alone. */
@Command(
    name = "demo",
    description = {
      "Writes a QMoE model with the layer geometry of gpt-oss-20b and opens it with stock ONNX"
          + " Runtime three ways: with expertbank, with its own CPU kernel without prepacking, and"
          + " with its own CPU kernel as it comes. Prints one table.",
      ""
    },
    mixinStandardHelpOptions = true,
    sortOptions = false,
    exitCodeListHeading = "%nExit codes:%n",
    exitCodeList = {
      "0:expertbank ran the model",
      "2:wrong usage",
      "3:the model cannot be read or written",
      "4:expertbank could not run the model; the table says why",
      "70:an error of qmoe itself"
    })
public final class DemoCommand implements Callable<Integer> {
  private static final String GEOMETRY = "gpt-oss-20b";

  @Option(names = "--layers", defaultValue = "1", description = "Layers to write. Default: 1.")
  private int layers;

  @Option(
      names = "--scale-type",
      defaultValue = "FLOAT16",
      description = "Element type of the scales: FLOAT or FLOAT16. Default: ${DEFAULT-VALUE}.")
  private ElementType scaleType = ElementType.FLOAT16;

  @Option(names = "--model", paramLabel = "FILE", description = "Use this model instead.")
  private @Nullable Path userModel;

  @Option(
      names = "--skip-ort",
      description = "Leave out ONNX Runtime as it comes: its load takes 15 to 30 s a layer.")
  private boolean skipOrt;

  @Option(names = "--threads", description = "Intra-op threads. Default: one for each core.")
  private int threads = Runtime.getRuntime().availableProcessors();

  @Option(names = "--json", paramLabel = "FILE", description = "Also write the result as JSON.")
  private @Nullable Path jsonFile;

  @Option(
      names = "--dir",
      paramLabel = "DIR",
      description =
          "Where the model is written, about 450 MB a layer. Default: a temporary folder.")
  private @Nullable Path parentDirectory;

  @CommandLine.Spec
  @SuppressWarnings("NullAway.Init") // picocli
  private CommandLine.Model.CommandSpec spec;

  @Override
  public Integer call() throws IOException, InterruptedException {
    Path model = userModel;
    if (model != null) {
      return demo(model);
    }
    Path directory =
        parentDirectory == null
            ? Files.createTempDirectory("qmoe-demo")
            : Files.createTempDirectory(parentDirectory, "qmoe-demo");
    try {
      return demo(write(directory));
    } finally {
      delete(directory);
    }
  }

  private Path write(Path directory) {
    SyntheticModel model =
        ModelGeometry.named(GEOMETRY)
            .orElseThrow()
            .synthetic()
            .types(ElementType.FLOAT, scaleType)
            .layers(layers)
            .seed(1)
            .build();
    progress("writing a model of " + layers + " layer(s) with the geometry of " + GEOMETRY);
    return SyntheticModelWriter.write(
            model, directory.resolve("demo.onnx"), false, SyntheticModelWriter.Progress.NONE)
        .model();
  }

  private int demo(Path model) throws IOException, InterruptedException {
    List<QMoeNode> nodes = QMoeNode.of(OnnxModelReader.read(model), RoutingSemantics.ORT_CPU);
    OrtEnvironment environment =
        OrtEnvironment.getEnvironment(OrtLoggingLevel.ORT_LOGGING_LEVEL_ERROR, "qmoe");
    Workload workload = new Workload(environment, model, threads, this::progress);
    List<ArmResult> results = new ArrayList<>();
    for (Arm arm : Arm.values()) {
      if (arm != Arm.ORT_DEFAULT || !skipOrt) {
        results.add(workload.measure(arm));
      }
    }
    progress("measuring memory bandwidth");
    DemoReport report =
        new DemoReport(
            describe(model, nodes),
            environment.getVersion(),
            threads,
            touchedBytesPerToken(nodes),
            ReadBandwidth.measure(threads),
            results);
    PrintWriter out = spec.commandLine().getOut();
    report.print(out);
    out.flush();
    Path json = jsonFile;
    if (json != null) {
      try (PrintWriter writer = new PrintWriter(Files.newBufferedWriter(json))) {
        report.printJson(writer);
      }
    }
    return results.stream()
            .anyMatch(r -> r.arm() == Arm.EXPERTBANK && r instanceof ArmResult.Measured)
        ? ExitCode.OK
        : ExitCode.UNSUPPORTED;
  }

  private String describe(Path model, List<QMoeNode> nodes) {
    if (userModel != null) {
      return Printable.escape(model.toString(), 200) + ", " + nodes.size() + " QMoE node(s)";
    }
    return nodes.size()
        + " layer(s) with the geometry of "
        + GEOMETRY
        + ": hidden 2880, inter 2880, 32 experts, top 4, int4 in blocks of 32, float io, "
        + scaleType.name().toLowerCase(java.util.Locale.ROOT)
        + " scales";
  }

  private static long touchedBytesPerToken(List<QMoeNode> nodes) {
    return nodes.stream()
        .mapToLong(
            node ->
                node.reading() instanceof QMoeReading.Supported(var spec, var _)
                    ? spec.topK() * spec.bytesPerExpert()
                    : 0)
        .sum();
  }

  private void progress(String text) {
    spec.commandLine().getErr().println("demo: " + text);
    spec.commandLine().getErr().flush();
  }

  private static void delete(Path directory) throws IOException {
    try (Stream<Path> paths = Files.walk(directory)) {
      for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
        Files.deleteIfExists(path);
      }
    }
  }
}
