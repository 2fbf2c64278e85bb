package dev.expertbank.model.cli;

import static dev.expertbank.model.cli.QMoeRun.golden;
import static dev.expertbank.model.cli.QMoeRun.run;
import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.model.Dimension;
import dev.expertbank.model.ExternalDataWriter;
import dev.expertbank.model.OnnxModelBuilder;
import dev.expertbank.model.SyntheticModel;
import dev.expertbank.model.SyntheticModelWriter;
import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.TensorShape;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.RandomAccessFile;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/** The commands as a user runs them: output against golden files, exit codes, error texts. */
class QMoeCommandTest {
  @TempDir private Path directory;

  private Path synthetic() {
    return write(
        SyntheticModel.builder()
            .geometry(64, 96, 2, 1)
            .layers(3)
            .zeroPoints(true)
            .types(ElementType.FLOAT16, ElementType.FLOAT16)
            .build());
  }

  private Path write(SyntheticModel model) {
    Path file = directory.resolve("m.onnx");
    SyntheticModelWriter.write(model, file, false, SyntheticModelWriter.Progress.NONE);
    return file;
  }

  /** One node with inline weights, one that is not supported, names that attack a terminal. */
  private Path mixed() {
    Path file = directory.resolve("m.onnx");
    OnnxModelBuilder builder =
        OnnxModelBuilder.named("g")
            .input("x\u001b[31m", ElementType.FLOAT, Dimension.symbolic("t\n|"), Dimension.of(16))
            .initializer("w1", ElementType.UINT8, TensorShape.of(2, 16, 8), new byte[256])
            .initializer("s1", ElementType.FLOAT, TensorShape.of(2, 16), new byte[128])
            .initializer("w2", ElementType.UINT8, TensorShape.of(2, 16, 8), new byte[256])
            .initializer("s2", ElementType.FLOAT, TensorShape.of(2, 16), new byte[128]);
    for (int bits : new int[] {4, 3}) {
      builder.node(
          "com.microsoft",
          "QMoE",
          "node\u202e" + bits,
          Map.of("expert_weight_bits", new AttributeValue.IntValue(bits)),
          List.of("x\u001b[31m", "logits", "w1", "s1", "", "w2", "s2"),
          List.of("y" + bits));
    }
    builder.output("y4", ElementType.FLOAT, Dimension.unknown(), Dimension.of(16));
    builder.write(file, false);
    return file;
  }

  @ParameterizedTest(name = "{0}")
  @ValueSource(
      strings = {
        "inspect",
        "inspect --all",
        "inspect --json",
        "catalog",
        "catalog --experts",
        "catalog --json",
        "plan --budget 50%",
        "plan --budget 50% --json"
      })
  void printsTheGoldenFile(String command) throws IOException {
    for (boolean synthetic : new boolean[] {true, false}) {
      Path file = synthetic ? synthetic() : mixed();
      QMoeRun run = run((command + " " + file).split(" "));

      String name =
          command.replace(" --budget 50%", "").replace(" --", "-")
              + (synthetic ? "-synthetic" : "-mixed")
              + ".txt";
      assertThat(run.out().replace(directory.toString(), "DIR")).as(name).isEqualTo(golden(name));
      assertThat(run.exitCode())
          .as(name)
          .isEqualTo(
              synthetic || command.startsWith("inspect") ? ExitCode.OK : ExitCode.UNSUPPORTED);
      assertThat(run.err()).isEmpty();
      Files.delete(file);
      Files.deleteIfExists(directory.resolve("m.onnx.data"));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"inspect", "catalog", "inspect --json", "catalog --json"})
  void printsNothingThatATerminalWouldObey(String command) {
    QMoeRun run = run((command + " " + mixed()).split(" "));

    assertThat(run.out()).doesNotContain("\u001b", "\u202e", "t\n|", "\r");
  }

  @Test
  void weightsInTheLayoutOfACudaExportAreForCudaDevices() {
    String file = directory.resolve("m.onnx").toString();
    QMoeRun synth =
        run(
            ("synth --hidden 64 --inter 128 --experts 2 --top-k 1 --layers 2 --layout sm80 " + file)
                .split(" "));

    assertThat(synth.exitCode()).as(synth.err()).isEqualTo(ExitCode.OK);
    assertThat(run("inspect", file).out()).containsPattern("sm80 .*cuda only: SM80 layout");
    assertThat(run("inspect", "--json", file).out())
        .contains("\"claimable\" : true")
        .containsPattern("\"devices\" : \\[\\s*\"cuda\"\\s*\\]")
        .contains("\"layout\" : \"sm80\"", "\"layoutStated\" : true");
    assertThat(run("catalog", file))
        .satisfies(
            catalog -> {
              assertThat(catalog.exitCode()).isEqualTo(ExitCode.OK);
              assertThat(catalog.out()).contains("; cuda only: SM80 layout");
            });
    assertThat(run("catalog", "--json", file).out())
        .containsPattern("\"devices\" : \\[\\s*\"cuda\"\\s*\\]");
    assertThat(run("plan", "--budget", "50%", file).exitCode()).isEqualTo(ExitCode.OK);
  }

  @Test
  void cudaExportsAreReadWithTheSemanticsOfCuda() {
    Path file = directory.resolve("m.onnx");
    CudaExport.write(file, 1, 2);

    assertThat(run("inspect", file.toString()).out())
        .contains("no: qmoe.legacy-layout")
        .contains("choose option routing.semantics=ort-cuda");
    assertThat(run("inspect", "--routing", "ort-cuda", file.toString()).out())
        .containsPattern("sm80, assumed .*cuda only: SM80 layout")
        .contains("note: weights_prepacked is absent or -1");
  }

  @Test
  void missingDataIsShownByInspectAndAFindingOfCatalog() throws IOException {
    Path file = synthetic();
    Files.delete(directory.resolve("m.onnx.data"));

    QMoeRun inspect = run("inspect", file.toString());
    QMoeRun catalog = run("catalog", file.toString());

    assertThat(inspect.exitCode()).isEqualTo(ExitCode.OK);
    assertThat(inspect.out())
        .contains("PROBLEM")
        .contains("m.onnx.data")
        .contains("external.missing");
    assertThat(catalog.exitCode()).isEqualTo(ExitCode.FINDINGS);
    assertThat(catalog.err()).contains("m.onnx.data").contains("external.missing");
  }

  @Test
  void dataThatIsOneByteShortIsAFinding() throws IOException {
    Path file = synthetic();
    Path data = directory.resolve("m.onnx.data");
    byte[] bytes = Files.readAllBytes(data);
    Files.write(data, Arrays.copyOf(bytes, bytes.length - 1));

    QMoeRun run = run("catalog", file.toString());

    assertThat(run.exitCode()).isEqualTo(ExitCode.FINDINGS);
    assertThat(run.err()).contains("external.range").contains("layers.2.experts");
  }

  @Test
  void locationsThatLeaveTheDirectoryAreFindings() throws IOException {
    Path sub = Files.createDirectory(directory.resolve("sub"));
    try (ExternalDataWriter data = ExternalDataWriter.create(directory.resolve("w"), false)) {
      data.append(new byte[8], 1);
      data.commit();
    }
    for (String location :
        List.of("../w", directory.resolve("w").toString(), "*/_ORT_MEM_ADDR_/*")) {
      Path file = sub.resolve("m.onnx");
      OnnxModelBuilder.named("g")
          .initializer(
              "w", ElementType.UINT8, TensorShape.of(8), new ConstantData.External(location, 0, 8))
          .write(file, true);

      QMoeRun run = run("catalog", file.toString());

      assertThat(run.exitCode()).as(location).isEqualTo(ExitCode.FINDINGS);
      assertThat(run.err()).contains("[external.");
    }
  }

  @Test
  void inspectDoesNotReadTheDataFile() throws IOException {
    Path file = directory.resolve("m.onnx");
    long size = 100L << 30;
    try (RandomAccessFile sparse =
        new RandomAccessFile(directory.resolve("big.bin").toFile(), "rw")) {
      sparse.setLength(size);
    }
    OnnxModelBuilder.named("g")
        .initializer(
            "w",
            ElementType.UINT8,
            TensorShape.of(size),
            new ConstantData.External("big.bin", 0, size))
        .write(file, false);

    QMoeRun run = run("inspect", file.toString());

    assertThat(run.exitCode()).isEqualTo(ExitCode.OK);
    assertThat(run.out()).contains("100.00 GiB").doesNotContain("PROBLEM");
  }

  static Stream<Arguments> wrongUsage() {
    return Stream.of(
        Arguments.of("", "Missing command"),
        Arguments.of("explode", "explode"),
        Arguments.of("inspect", "MODEL"),
        Arguments.of("inspect --nope m.onnx", "--nope"),
        Arguments.of("inspect --routing=cpu m.onnx", "ort-cpu"),
        Arguments.of("plan m.onnx", "--budget"),
        Arguments.of("plan --budget 101% m.onnx", "more than all experts"),
        Arguments.of("plan --budget 8GB m.onnx", "8GiB"),
        Arguments.of("synth m.onnx", "--geometry"),
        Arguments.of("synth --hidden 64 m.onnx", "--inter"),
        Arguments.of("synth --geometry nope m.onnx", "gpt-oss-20b"),
        Arguments.of("synth --geometry gpt-oss-20b --bits 3 m.onnx", "bits must be 2, 4 or 8"),
        Arguments.of("synth --geometry gpt-oss-20b --top-k 33 m.onnx", "32 experts"),
        Arguments.of("synth --geometry gpt-oss-20b --bits 2 --layout sm80 m.onnx", "4 or 8 bits"),
        Arguments.of("synth --geometry gpt-oss-20b --layout sm90 m.onnx", "SM80"),
        Arguments.of("synth --geometry gpt-oss-20b --io-type int8 m.onnx", "bfloat16"));
  }

  @ParameterizedTest(name = "qmoe {0}")
  @MethodSource("wrongUsage")
  void wrongUsageIsNamed(String arguments, String expected) {
    QMoeRun run = run(arguments.isEmpty() ? new String[0] : arguments.split(" "));

    assertThat(run.exitCode()).isEqualTo(ExitCode.USAGE);
    assertThat(run.err()).containsIgnoringCase(expected).contains("--help");
    assertThat(run.out()).isEmpty();
  }

  @Test
  void filesThatAreNoModelsAreNamed() throws IOException {
    Path text = Files.writeString(directory.resolve("README.md"), "# hello\n");
    for (String file :
        List.of("-", directory.toString(), text.toString(), "/dev/stdin", "no.onnx")) {
      QMoeRun run = run("inspect", file);

      assertThat(run.exitCode()).as(file).isEqualTo(ExitCode.FILE);
      assertThat(run.err()).as(file).contains(file).contains("[model.");
      assertThat(run.out()).isEmpty();
    }
  }

  @Test
  void synthWritesWhatItWasAskedFor() {
    String file = directory.resolve("m.onnx").toString();

    QMoeRun run =
        run(
            ("synth --geometry granite-3.0-1b-a400m --layers 2 --hidden 64 --inter 32 --bits 8"
                    + " --block-size 0 --io-type bfloat16 --scale-type float16 --no-normalize --seed 3"
                    + " --activation gelu --fc3 --biases "
                    + file)
                .split(" "));
    QMoeRun again = run("synth", "--geometry", "granite-3.0-1b-a400m", file);
    QMoeRun inspect = run("inspect", "--json", file);

    assertThat(run.exitCode()).as(run.err()).isEqualTo(ExitCode.OK);
    assertThat(run.out().lines()).containsExactly(file, file + ".data");
    assertThat(inspect.out())
        .contains("\"experts\" : 32", "\"topK\" : 8", "\"hidden\" : 64", "\"inter\" : 32")
        .contains("\"bits\" : 8", "\"blockSize\" : 0", "\"ioType\" : \"bfloat16\"")
        .contains("\"scaleType\" : \"float16\"", "\"normalizeRoutingWeights\" : false")
        .contains("\"activation\" : \"gelu\"", "\"fc3\" : true");
    assertThat(again.exitCode()).isEqualTo(ExitCode.FILE);
    assertThat(again.err()).contains("exists already").contains("--force");
  }

  @Test
  void synthSaysWhenARouterIsNotTheModelsOwn() {
    String file = directory.resolve("m.onnx").toString();

    QMoeRun run =
        run(
            "synth",
            "--geometry",
            "glm-5.2",
            "--layers",
            "1",
            "--hidden",
            "64",
            "--inter",
            "64",
            "--experts",
            "8",
            file);

    assertThat(run.exitCode()).isEqualTo(ExitCode.OK);
    assertThat(run.err()).contains("sigmoid+bias");
  }

  @Test
  void helpListsCommandsAndExitCodes() {
    QMoeRun run = run("--help");

    assertThat(run.exitCode()).isEqualTo(ExitCode.OK);
    assertThat(run.out())
        .contains("inspect", "catalog", "plan", "simulate", "synth", "Exit codes", "70");
  }

  @Test
  void unexpectedErrorsHaveTheirOwnExitCode() {
    @CommandLine.Command(name = "broken")
    final class Broken implements Runnable {
      @Override
      public void run() {
        throw new IllegalStateException("broken on purpose");
      }
    }
    StringWriter err = new StringWriter();

    int exitCode =
        QMoe.commandLine()
            .addSubcommand(new Broken())
            .setErr(new PrintWriter(err))
            .execute("broken");

    assertThat(exitCode).isEqualTo(ExitCode.INTERNAL);
    assertThat(err.toString()).contains("internal error").contains("broken on purpose");
  }
}
