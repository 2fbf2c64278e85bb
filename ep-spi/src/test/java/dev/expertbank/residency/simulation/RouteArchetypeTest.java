package dev.expertbank.residency.simulation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

class RouteArchetypeTest {
  private static final int TOKENS = 256;

  static List<RouteArchetype> all() {
    return RouteArchetype.all();
  }

  private static RouteArchetype named(String name) {
    return RouteArchetype.named(name).orElseThrow();
  }

  /**
   * Hit rates, in percent, that the parameters were fitted to: each layer keeps its last used
   * experts, as many as {@code cached} says; the first tokens do not count.
   */
  @ParameterizedTest
  @CsvSource({
    "gpt-oss-20b-like, 64, 4 8 10 16, 64 83 88 94",
    "granite-like, 16, 8 12 16 20 24, 45.2 60.8 73.1 82.5 89.9",
    "qwen3-30b-like, 64, 8 24 49 51 81, 42.7 74.7 89.1 89.8 95.6",
    "qwen3.8-flash-next-like, 64, 32 64 128, 50.4 66.6 79.3",
    "deepseek-v4-flash-like, 64, 8 12 15, 20.8 27.3 31.2"
  })
  void cachesOfTheLastUsedExpertsHitAsPublished(
      String name, int skipped, String cached, String rates) {
    int[][][] routes = named(name).routes(TOKENS, 1);
    String[] sizes = cached.split(" ", -1);
    String[] expected = rates.split(" ", -1);
    for (int i = 0; i < sizes.length; i++) {
      assertThat(hitPercent(routes, Integer.parseInt(sizes[i]), skipped))
          .as("%s experts cached", sizes[i])
          .isCloseTo(Double.parseDouble(expected[i]), within(2.0));
    }
  }

  private static double hitPercent(int[][][] routes, int cached, int skipped) {
    long hits = 0;
    long uses = 0;
    for (int layer = 0; layer < routes[0].length; layer++) {
      Deque<Integer> cache = new ArrayDeque<>();
      for (int token = 0; token < routes.length; token++) {
        int[] chosen = routes[token][layer];
        if (token >= skipped) {
          uses += chosen.length;
          hits += Arrays.stream(chosen).filter(cache::contains).count();
        }
        for (int expert : chosen) {
          cache.remove(expert);
          cache.addFirst(expert);
        }
        while (cache.size() > cached) {
          cache.removeLast();
        }
      }
    }
    return 100.0 * hits / uses;
  }

  /** How many experts of a token the next one uses again, of the granite routes 42.9 %. */
  @Test
  void tokensRepeatEachOthersExperts() {
    int[][][] routes = named("granite-like").routes(TOKENS, 2);
    long repeats = 0;
    for (int token = 1; token < TOKENS; token++) {
      for (int layer = 0; layer < routes[token].length; layer++) {
        List<Integer> before = Arrays.stream(routes[token - 1][layer]).boxed().toList();
        repeats += Arrays.stream(routes[token][layer]).filter(before::contains).count();
      }
    }
    assertThat(100.0 * repeats / ((TOKENS - 1) * 24 * 8)).isCloseTo(45.3, within(2.0));
  }

  /** The builder of a trace refuses an expert that does not exist or is there twice. */
  @ParameterizedTest
  @MethodSource("all")
  void aTraceHasAPromptAndAWindowForEachToken(RouteArchetype archetype) {
    RouteTrace trace = archetype.trace(5, 3, 7);

    assertThat(trace.experts()).hasSize(archetype.layers()).containsOnly(archetype.experts());
    assertThat(trace.topK()).containsOnly(archetype.topK());
    assertThat(trace.windows()).extracting(RouteTrace.Window::rows).containsExactly(5, 1, 1, 1);
    assertThat(Arrays.stream(trace.windows().getFirst().counts()[0]).sum())
        .isEqualTo(5 * archetype.topK());
  }

  @Test
  void theSeedDecidesTheRoutes() {
    RouteArchetype archetype = named("gpt-oss-20b-like");

    assertThat(archetype.routes(8, 3)).isDeepEqualTo(archetype.routes(8, 3));
    assertThat(archetype.routes(8, 3)[0]).isNotEqualTo(archetype.routes(8, 4)[0]);
  }

  @Test
  void layersAreDrawnIndependently() {
    int[][] token = named("gpt-oss-20b-like").routes(1, 1)[0];

    assertThat(Arrays.stream(token).map(Arrays::toString).distinct().count()).isGreaterThan(20);
  }

  @Test
  void theNumberOfExpertsOfATokenCanBeAnother() {
    RouteArchetype four = named("granite-like").withTopK(4);

    assertThat(four.routes(1, 1)[0]).hasDimensions(24, 4);
    assertThatThrownBy(() -> four.withTopK(33)).hasMessageContaining("33 of 32 experts");
    assertThat(RouteArchetype.named("unheard of")).isEmpty();
  }
}
