package dev.expertbank.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.residency.simulation.RouteTrace;
import dev.expertbank.residency.simulation.RouteTrace.Phase;
import dev.expertbank.spi.EpException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class RouteTraceFileTest {
  private static final String GOOD =
      """
      {"model": "m", "num_layers": 2, "num_experts": 4, "top_k": 2, "prompts": {"p": {
        "prompt_len": 2,
        "prefill": [[[0, 1], [2, 3]], [[1, 2], [3, 0]]],
        "decode": [[[1, 0], [3, 2]]]}}}
      """;

  @TempDir private Path directory;

  private RouteTraceFile read(String text) throws IOException {
    Path file = directory.resolve("trace.json");
    Files.writeString(file, text);
    return RouteTraceFile.read(file);
  }

  private void assertRefused(String text, String detail) {
    assertThatThrownBy(() -> read(text))
        .as(text)
        .isInstanceOfSatisfying(
            EpException.class, e -> assertThat(e.code()).isEqualTo("trace.format"))
        .hasMessageContaining("trace.json")
        .hasMessageContaining(detail);
  }

  @Test
  void aPromptIsOneWindowAndEachTokenAfterItIsOne() throws IOException {
    RouteTraceFile file = read(GOOD);
    assertThat(file.model()).isEqualTo("m");
    RouteTrace trace = Objects.requireNonNull(file.prompts().get("p"));
    assertThat(trace.experts()).containsExactly(4, 4);
    assertThat(trace.topK()).containsExactly(2, 2);
    assertThat(trace.windows()).hasSize(2);
    RouteTrace.Window prefill = trace.windows().getFirst();
    assertThat(prefill.phase()).isEqualTo(Phase.PREFILL);
    assertThat(prefill.rows()).isEqualTo(2);
    assertThat(prefill.counts()).isDeepEqualTo(new int[][] {{1, 2, 1, 0}, {1, 0, 1, 2}});
    assertThat(trace.windows().get(1).counts())
        .isDeepEqualTo(new int[][] {{1, 1, 0, 0}, {0, 0, 1, 1}});
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "[1, 0]           | [1]           | decode row 0, layer 0: 1 experts",
        "[1, 2], [3, 0]   | [1, 2, 3], [3, 0] | prefill row 1, layer 0: 3 experts",
        "[1, 2], [3, 0]   | [1, 2], [3, 4] | prefill row 1, layer 1, column 1: expert 4 of 4",
        "[1, 0]           | [-1, 0]       | decode row 0, layer 0, column 0: expert -1",
        "[1, 0]           | [1, 1]        | decode row 0, layer 0, column 1",
        "[1, 0]           | [1, 0.5]      | the number of an expert",
        "[1, 0]           | [1, 1e9]      | the number of an expert",
        "[1, 0]           | [1, 4294967296] | out of range",
        "[1, 0]           | [1, null]     | the number of an expert",
        "[[1, 0], [3, 2]] | [[1, 0]]      | decode row 0 has 1 layers, not 2",
        "[[[1, 0], [3, 2]]] | []          | no decode rows",
        "[[[1, 0], [3, 2]]] | 7           | rows should be",
        "\"prompt_len\": 2 | \"prompt_len\": 1000000000 | prefill has 2 rows",
        "\"num_layers\": 2 | \"num_layers\": 1000000000 | num_layers is 1000000000",
        "\"num_layers\": 2 | \"num_layers\": 0 | num_layers is 0",
        "\"num_layers\": 2, |              | have to come before",
        "\"model\": \"m\", |               | no model",
        "\"top_k\"        | \"topk\"       | unknown member",
        "\"decode\"       | \"decoded\"    | unknown member",
        "\"prefill\"      | \"decode\"     | uplicate",
        "}}}              | }}             | end-of-input",
        "}}}              | }}} {}         | after the end",
      })
  void whatCannotBeIsRefusedWithItsPlace(String from, String to, String detail) {
    assertThat(GOOD).contains(from);
    assertRefused(GOOD.replace(from, to == null ? "" : to), detail);
  }

  @Test
  void theNameOfThePromptIsInTheMessage() {
    assertRefused(GOOD.replace("[1, 0]", "[1, 1]").replace("\"p\"", "\"a\\u001b[2J\""), "prompt ");
    assertThatThrownBy(() -> read(GOOD.replace("[1, 0]", "[1, 1]").replace("\"p\"", "\"\\u001b\"")))
        .message()
        .doesNotContain("\u001b");
  }

  @Test
  void claimsThatMemoryWouldNotHoldAreRefusedBeforeItIsTaken() {
    assertRefused(
        GOOD.replace("\"num_layers\": 2", "\"num_layers\": 65536")
            .replace("\"num_experts\": 4", "\"num_experts\": 65536"),
        "1 decode rows of 65536 layers of 65536 experts are too much");
  }

  @Test
  void everyTruncationIsRefused() {
    String text = GOOD.strip();
    for (int length = 0; length < text.length(); length++) {
      assertRefused(text.substring(0, length), "");
    }
  }

  @Test
  void deepNestingIsRefused() {
    assertRefused(GOOD.replace("[1, 0]", "[".repeat(100_000)), "");
  }

  @Test
  void aFileThatCannotBeReadIsNamed() {
    for (Path path : new Path[] {directory, directory.resolve("none")}) {
      assertThatThrownBy(() -> RouteTraceFile.read(path))
          .isInstanceOfSatisfying(
              EpException.class, e -> assertThat(e.code()).isEqualTo("trace.read"))
          .hasMessageContaining(path.getFileName().toString());
    }
  }
}
