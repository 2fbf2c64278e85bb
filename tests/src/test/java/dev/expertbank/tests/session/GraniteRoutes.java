package dev.expertbank.tests.session;

import dev.expertbank.residency.simulation.RouteTrace;
import dev.expertbank.residency.simulation.RouteTrace.Phase;
import java.io.IOException;
import java.io.InputStream;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import tools.jackson.jr.ob.JSON;

/** The recorded routes of granite-3.0-1b-a400m. */
final class GraniteRoutes {
  private GraniteRoutes() {}

  /**
   * One prompt.
   *
   * @param runs {@code [runs][rows][layers][top k]}: the prompt, then one run for each token
   */
  @SuppressWarnings("ArrayRecordComponent") // shared, and nobody writes to it
  record Prompt(int[][][][] runs) {
    RouteTrace trace() {
      RouteTrace.Builder builder =
          new RouteTrace.Builder(
              Collections.nCopies(RoutedModel.LAYERS, RoutedModel.EXPERTS),
              Collections.nCopies(RoutedModel.LAYERS, RoutedModel.TOP_K));
      for (int run = 0; run < runs.length; run++) {
        builder.window(run == 0 ? Phase.PREFILL : Phase.DECODE, runs[run]);
      }
      return builder.build();
    }
  }

  static Prompt prompt(String name) {
    try (InputStream in =
        Objects.requireNonNull(
            GraniteRoutes.class.getResourceAsStream("/routes/granite-3.0-1b-a400m.json"))) {
      Map<?, ?> prompts = (Map<?, ?>) JSON.std.mapFrom(in).get("prompts");
      Map<?, ?> prompt =
          Objects.requireNonNull((Map<?, ?>) Objects.requireNonNull(prompts).get(name));
      List<?> prefill = list(prompt, "prefill");
      List<?> decode = list(prompt, "decode");
      int[][][][] runs = new int[1 + decode.size()][][][];
      runs[0] = rows(prefill);
      for (int token = 0; token < decode.size(); token++) {
        runs[token + 1] = rows(List.of(Objects.requireNonNull(decode.get(token))));
      }
      return new Prompt(runs);
    } catch (IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  private static List<?> list(Map<?, ?> prompt, String member) {
    return Objects.requireNonNull((List<?>) prompt.get(member));
  }

  private static int[][][] rows(List<?> rows) {
    return rows.stream()
        .map(
            row ->
                ((List<?>) row)
                    .stream()
                        .map(
                            layer ->
                                ((List<?>) layer)
                                    .stream().mapToInt(id -> ((Number) id).intValue()).toArray())
                        .toArray(int[][]::new))
        .toArray(int[][][]::new);
  }
}
