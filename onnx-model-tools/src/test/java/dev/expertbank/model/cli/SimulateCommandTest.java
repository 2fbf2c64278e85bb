package dev.expertbank.model.cli;

import static dev.expertbank.model.cli.QMoeRun.golden;
import static dev.expertbank.model.cli.QMoeRun.run;
import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.model.RouteTraceFile;
import dev.expertbank.model.SyntheticModel;
import dev.expertbank.model.SyntheticModelWriter;
import dev.expertbank.residency.HeatProfile;
import dev.expertbank.residency.HeatProfileText;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.ResidencyLayout;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class SimulateCommandTest {
  /**
   * Two layers of four experts, one token in the prompt and three decoded. With room for four
   * experts of 4096 bytes:
   *
   * <ul>
   *   <li>a fill that starts after one window hits from the next but one on;
   *   <li>layer-split and whole-bank start layer 0 after the prompt: tokens 1 and 2 hit it, 2 of 6
   *       uses; 4 reads and 4 copies are 32768 bytes;
   *   <li>lru and adaptive start what the prompt used, of which expert 0 of layer 0 hits from token
   *       1 on, then expert 1 of layer 1, which hits at token 2: 3 of 6 uses; 3 reads and 3 copies
   *       are 24576 bytes;
   *   <li>Belady's bound reads expert 1 of layer 1 once: 4096 bytes.
   * </ul>
   */
  private static final String SMALL =
      """
      {"model": "m", "num_layers": 2, "num_experts": 4, "top_k": 1, "prompts": {
        "p": {"prefill": [[[0], [0]]], "decode": [[[0], [1]], [[0], [1]], [[0], [1]]]},
        "q": {"prefill": [[[3], [3]]], "decode": [[[3], [2]], [[3], [2]], [[3], [2]]]}}}
      """;

  @TempDir private Path directory;
  private Path trace;

  @BeforeEach
  void writeTrace() throws IOException {
    trace = Files.writeString(directory.resolve("trace.json"), SMALL);
  }

  private QMoeRun simulate(String arguments) {
    List<String> all = new ArrayList<>(List.of("simulate", trace.toString()));
    all.addAll(
        Arrays.stream(arguments.replace("DIR", directory.toString()).split(" "))
            .filter(argument -> !argument.isEmpty())
            .toList());
    return run(all.toArray(String[]::new));
  }

  private void profile(int layers, double... usesPerRow) {
    ResidencyLayout layout =
        new ResidencyLayout(Collections.nCopies(layers, LayerLayout.pageable(4, 1, 4096, 4096)));
    HeatProfileText.save(new HeatProfile(layout, usesPerRow), directory.resolve("heat.txt"));
  }

  @Test
  void theTableIsTheOneThatWasWorkedOutByHand() {
    QMoeRun run = simulate("--expert-bytes 4KiB --budget 50% --prompt p");

    assertThat(run.exitCode()).as(run.err()).isEqualTo(ExitCode.OK);
    assertThat(run.out())
        .isEqualTo(
            """
            m: 2 layers, 8 experts, 32.00 KiB, cold start

            prompt p
                 budget  of bank  policy       bytes/token    copied  byte hit rate  promotions  evictions
              16.00 KiB   50.0 %  adaptive        8.00 KiB  4.00 KiB         50.0 %           3          0
              16.00 KiB   50.0 %  hot-set        10.67 KiB  5.33 KiB         33.3 %           4          0
              16.00 KiB   50.0 %  lru             8.00 KiB  4.00 KiB         50.0 %           3          0
              16.00 KiB   50.0 %  whole-bank     10.67 KiB  5.33 KiB         33.3 %           4          0
              16.00 KiB   50.0 %  layer-split    10.67 KiB  5.33 KiB         33.3 %           4          0
              16.00 KiB   50.0 %  belady          1.33 KiB         -         83.3 %           -          -
            """);
    assertThat(run.err().strip())
        .isEqualTo("qmoe: policy static-profile is left out; it needs --profile");
  }

  @Test
  void theDocumentIsTheGoldenFile() throws IOException {
    profile(2, 1, 0, 0, 0.5, 0, 1, 0.5, 0);

    QMoeRun run =
        simulate(
            "--expert-bytes 4096 --budget 50%,8KiB --policy lru,static-profile"
                + " --profile DIR/heat.txt --json");

    assertThat(run.exitCode()).as(run.err()).isEqualTo(ExitCode.OK);
    assertThat(run.out().replace(directory.toString(), "DIR"))
        .isEqualTo(golden("simulate-json.txt"));
    assertThat(run.err()).isEmpty();
  }

  private static List<String> lruRows(QMoeRun run) {
    return run.out().lines().filter(line -> line.contains(" lru ")).toList();
  }

  /** Decoding uses nothing that the prompt has, so both of its experts hit once: 2 of 6 uses. */
  @Test
  void promptsAreShownEachOrAsTheirMean() throws IOException {
    Files.writeString(trace, SMALL.replace("[[3], [2]]", "[[0], [2]]"));
    String arguments = "--expert-bytes 4KiB --budget 16KiB --policy lru";

    QMoeRun mean = simulate(arguments);
    QMoeRun each = simulate(arguments + " --per-prompt");
    QMoeRun second = simulate(arguments + " --prompt q");

    assertThat(mean.out()).contains("mean of 2 prompts\n").doesNotContain("prompt p");
    assertThat(lruRows(mean)).singleElement().asString().contains("9.33 KiB", "41.7 %");
    assertThat(each.out()).contains("prompt p\n", "prompt q\n");
    assertThat(lruRows(each)).hasSize(2);
    assertThat(lruRows(each).getFirst()).contains("8.00 KiB", "50.0 % ");
    assertThat(lruRows(each).getLast()).contains("10.67 KiB", "33.3 %");
    assertThat(lruRows(second)).containsExactly(lruRows(each).getLast());
  }

  /** What the profile knows is there before the prompt has shown it. */
  @Test
  void aProfileWarmsPoliciesThatFollowTheHeat() {
    profile(2, 1, 0, 0, 0, 0, 1, 0, 0);
    String arguments = "--expert-bytes 4KiB --budget 50% --prompt p --policy adaptive";

    QMoeRun cold = simulate(arguments);
    QMoeRun warm = simulate(arguments + " --profile DIR/heat.txt");

    assertThat(cold.out()).contains("cold start").containsPattern(" adaptive .* 50\\.0 % ");
    assertThat(warm.out()).contains("warm start").containsPattern(" adaptive .* 66\\.7 % ");
  }

  /** Figures of the residency model on these routes, in MiB per token. */
  @ParameterizedTest
  @CsvSource({
    "25%, adaptive, 80.54 MiB",
    "25%, layer-split, 110.81 MiB",
    "25%, belady, 51.27 MiB",
    "10%, lru, 164.79 MiB"
  })
  void recordedRoutesGiveTheKnownFigures(String budget, String policy, String bytesPerToken)
      throws URISyntaxException {
    Path granite =
        Path.of(
            Objects.requireNonNull(
                    RouteTraceFile.class.getResource("/routes/granite-3.0-1b-a400m.json"))
                .toURI());

    QMoeRun run =
        run(
            "simulate",
            granite.toString(),
            "--expert-bytes=768KiB",
            "--budget=" + budget,
            "--policy=adaptive,lru");

    assertThat(run.out().lines().filter(line -> line.contains(" " + policy + " ")))
        .singleElement()
        .asString()
        .contains(" " + bytesPerToken + " ");
  }

  /** What no policy can beat, and what the last used experts of a layer are known to hit. */
  @Test
  void routesAreDrawnWhereNoneWereRecorded() {
    QMoeRun run =
        run(
            "simulate",
            "--archetype=gpt-oss-20b-like",
            "--geometry=gpt-oss-20b",
            "--budget=31%",
            "--policy=lru");

    assertThat(run.exitCode()).as(run.err()).isEqualTo(ExitCode.OK);
    assertThat(run.out())
        .startsWith("gpt-oss-20b-like: 24 layers, 768 experts, ")
        .contains("mean of 5 prompts")
        .containsPattern(" lru .* 7\\d\\.\\d % ")
        .containsPattern(" belady .* 9\\d\\.\\d % ");
  }

  @Test
  void aByteCapBelowAnExpertKeepsEverythingCold() {
    QMoeRun run = simulate("--expert-bytes 4KiB --budget 100% --policy lru --byte-cap 4095");

    assertThat(lruRows(run))
        .singleElement()
        .asString()
        .containsPattern(" 8\\.00 KiB +0 B +0\\.0 % +0 +0$");
  }

  @Test
  void expertSizesComeFromAModelToo() {
    SyntheticModelWriter.write(
        SyntheticModel.builder().geometry(64, 96, 4, 1).layers(2).build(),
        directory.resolve("m.onnx"),
        false,
        SyntheticModelWriter.Progress.NONE);

    QMoeRun run = simulate("--model DIR/m.onnx --policy lru --budget 25% --json");

    assertThat(run.exitCode()).as(run.err()).isEqualTo(ExitCode.OK);
    // 64 x 288 weights in 4 bits, a float per 32 of them, and 256 biases; four pages.
    assertThat(run.out())
        .contains("\"bankSlotBytes\" : " + 8 * 4 * 4096)
        .contains("\"usedBytes\" : " + 6 * (9216 + 2304 + 1024));
  }

  /** No attribute tells their layout. */
  @Test
  void expertsOfACudaExportAreReadWithTheSemanticsOfCuda() {
    CudaExport.write(directory.resolve("m.onnx"), 2, 4);

    QMoeRun cpu = simulate("--model DIR/m.onnx --policy lru --budget 25%");
    QMoeRun cuda = simulate("--model DIR/m.onnx --routing ort-cuda --policy lru --budget 25%");

    assertThat(cpu.err()).contains("no com.microsoft::QMoE node that is supported");
    assertThat(cuda.exitCode()).as(cuda.err()).isEqualTo(ExitCode.OK);
  }

  @Test
  void thePlotIsWrittenOnceAndReplacedOnlyWhenAsked() throws IOException {
    String arguments = "--expert-bytes 4KiB --policy lru --plot DIR/out.svg";

    assertThat(simulate(arguments).exitCode()).isEqualTo(ExitCode.OK);
    assertThat(Files.readString(directory.resolve("out.svg")))
        .contains("mean of 2 prompts, cold start", "lru: 50.0 % at 50.0 %");
    QMoeRun again = simulate(arguments);
    assertThat(again.exitCode()).isEqualTo(ExitCode.FILE);
    assertThat(again.err()).contains("out.svg", "--force");
    assertThat(simulate(arguments + " --force").exitCode()).isEqualTo(ExitCode.OK);
  }

  static Stream<Arguments> wrongUsage() {
    return Stream.of(
        Arguments.of("", "--expert-bytes"),
        Arguments.of("--expert-bytes 1KiB --geometry gpt-oss-20b", "mutually exclusive"),
        Arguments.of("--expert-bytes 1.5KiB", "64KiB"),
        Arguments.of("--expert-bytes 0", "0 bytes"),
        Arguments.of("--expert-bytes 8388607TiB", "overflow"),
        Arguments.of("--geometry nope", "gpt-oss-20b"),
        Arguments.of("--expert-bytes 1KiB --archetype granite-like", "mutually exclusive"),
        Arguments.of("--expert-bytes 1KiB --budget 100.5%", "more than all experts"),
        Arguments.of("--expert-bytes 1KiB --budget 10%,,20%", "25%"),
        Arguments.of("--expert-bytes 1KiB --budget auto", "25%"),
        Arguments.of("--expert-bytes 1KiB --policy mru", "adaptive, hot-set, lru"),
        Arguments.of("--expert-bytes 1KiB --policy lru,static-profile", "--profile"),
        Arguments.of("--expert-bytes 1KiB --prompt r", "it has p, q"));
  }

  @ParameterizedTest(name = "qmoe simulate {0}")
  @MethodSource("wrongUsage")
  void wrongUsageIsNamed(String arguments, String expected) {
    QMoeRun run = simulate(arguments);

    assertThat(run.exitCode()).as(run.err()).isEqualTo(ExitCode.USAGE);
    assertThat(run.err()).contains(expected).contains("--help");
    assertThat(run.out()).isEmpty();
  }

  @Test
  void anUnknownArchetypeIsNamedWithThoseThereAre() {
    QMoeRun run = run("simulate", "--archetype=nope", "--expert-bytes=1KiB");

    assertThat(run.exitCode()).isEqualTo(ExitCode.USAGE);
    assertThat(run.err()).contains("'nope'", "granite-like", "gpt-oss-20b-like");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "[[3], [2]] | [[3], [4]] | row 0, layer 1, column 0: expert 4 of 4 | trace.format",
        "[[0], [1]] | [[0], 1]   | line 2, column                           | trace.format",
        "\"model\"  | \"mo\\u001bdel\" | unknown member                    | trace.format",
      })
  void aTraceThatCannotBeIsOneErrorWithItsPlace(String from, String to, String place, String code)
      throws IOException {
    Files.writeString(trace, SMALL.replace(from, to));

    QMoeRun run = simulate("--expert-bytes 1KiB");

    assertThat(run.exitCode()).isEqualTo(ExitCode.FILE);
    assertThat(run.err().lines())
        .singleElement()
        .asString()
        .contains("trace.json", place, "[" + code + "]")
        .doesNotContain("\u001b");
    assertThat(run.out()).isEmpty();
  }

  @Test
  void namesOfATraceDoNothingToATerminal() throws IOException {
    Files.writeString(
        trace, SMALL.replace("\"m\"", "\"\\u001b[2J\"").replace("\"p\":", "\"\\u202ep\\n\":"));

    for (String output : List.of("", " --per-prompt", " --json", " --prompt none")) {
      QMoeRun run = simulate("--expert-bytes 1KiB --policy lru" + output);
      assertThat(run.out() + run.err()).doesNotContain("\u001b", "\u202e");
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"--geometry gpt-oss-20b", "--expert-bytes 4KiB --profile DIR/heat.txt"})
  void whatIsOfAnotherModelIsRefused(String arguments) {
    profile(1, 1, 0, 0, 0);

    QMoeRun run = simulate(arguments);

    assertThat(run.exitCode()).isEqualTo(ExitCode.FILE);
    assertThat(run.err()).containsPattern("\\[(trace|profile)\\.model\\]");
  }

  @Test
  void aTraceWithoutPromptsIsRefused() throws IOException {
    Files.writeString(trace, SMALL.substring(0, SMALL.indexOf("\"p\":")) + "}}");

    QMoeRun run = simulate("--expert-bytes 1KiB");

    assertThat(run.exitCode()).isEqualTo(ExitCode.FILE);
    assertThat(run.err()).contains("no prompts").contains("[trace.format]");
  }
}
