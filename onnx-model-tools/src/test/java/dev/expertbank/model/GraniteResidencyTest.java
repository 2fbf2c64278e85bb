package dev.expertbank.model;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.residency.simulation.RouteTrace;
import dev.expertbank.residency.simulation.SimulationResult;
import java.util.List;
import java.util.function.ToDoubleFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Bytes per token on recorded routes, counting what is read in place and all that is copied. */
class GraniteResidencyTest {
  private static final GraniteResidency GRANITE = new GraniteResidency();
  private static final List<String> POLICIES =
      List.of("whole-bank", "layer-split", "lru", "hot-set", "static-profile", "adaptive");

  private static double mean(ToDoubleFunction<String> bytesPerToken) {
    return GRANITE.prompts().stream().mapToDouble(bytesPerToken).average().orElseThrow();
  }

  private static double cold(String prompt, String policy, int percent) {
    return GRANITE.cold(prompt, policy, percent).bytesPerToken();
  }

  private static double better(String prompt, int percent) {
    return Math.min(cold(prompt, "lru", percent), cold(prompt, "static-profile", percent));
  }

  @Test
  void theTraceIsTheRecordedOne() {
    assertThat(GRANITE.prompts()).containsExactly("english_prose", "code", "math");
    RouteTrace trace = GRANITE.trace("code");
    assertThat(trace.windows()).hasSize(65);
    assertThat(trace.windows().getFirst().rows()).isEqualTo(44);
    for (int window = 0; window < 65; window++) {
      assertThat(trace.windows().get(window).counts()[1][13])
          .isEqualTo(trace.windows().get(window).rows());
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {25, 50})
  void adaptiveFromAColdStartNeedsNoMoreThanTheBetterOfLruAndAStaticProfile(int percent) {
    for (String prompt : GRANITE.prompts()) {
      assertThat(cold(prompt, "adaptive", percent)).isLessThanOrEqualTo(better(prompt, percent));
    }
    assertThat(mean(prompt -> cold(prompt, "adaptive", percent)))
        .isLessThanOrEqualTo(
            Math.min(
                mean(prompt -> cold(prompt, "lru", percent)),
                mean(prompt -> cold(prompt, "static-profile", percent))));
  }

  @ParameterizedTest
  @ValueSource(ints = {25, 50})
  void adaptiveFromAWarmStartNeedsLessThanBothAndThanFromAColdStart(int percent) {
    for (String prompt : GRANITE.prompts()) {
      assertThat(GRANITE.warm(prompt, "adaptive", percent).bytesPerToken())
          .isLessThan(better(prompt, percent));
    }
    assertThat(mean(prompt -> GRANITE.warm(prompt, "adaptive", percent).bytesPerToken()))
        .isLessThan(mean(prompt -> cold(prompt, "adaptive", percent)));
  }

  @ParameterizedTest
  @ValueSource(ints = {10, 25, 50, 75, 100})
  void noPolicyIsBelowBeladysBound(int percent) {
    for (String prompt : GRANITE.prompts()) {
      double bound = GRANITE.bound(prompt, percent).bytesPerToken();
      for (String policy : POLICIES) {
        assertThat(cold(prompt, policy, percent)).as(policy).isGreaterThanOrEqualTo(bound);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {10, 25, 50, 75, 100})
  void hitsAndMissesAreAllThatTheRoutesUse(int percent) {
    for (String policy : POLICIES) {
      SimulationResult result = GRANITE.cold("math", policy, percent);
      assertThat(result.decode().hits() + result.decode().misses()).isEqualTo(64 * 24 * 8);
      assertThat(result.decode().hitBytes())
          .isEqualTo(result.decode().hits() * GraniteResidency.EXPERT_BYTES);
      assertThat(result.moves().startedBytes())
          .isEqualTo(result.moves().started() * GraniteResidency.EXPERT_BYTES);
      assertThat(result.moves().started() - result.moves().evicted())
          .isBetween(0L, GraniteResidency.budget(percent) / GraniteResidency.EXPERT_BYTES);
    }
  }
}
