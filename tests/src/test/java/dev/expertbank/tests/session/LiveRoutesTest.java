package dev.expertbank.tests.session;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.model.RouteTraceFile;
import dev.expertbank.residency.HeatProfile;
import dev.expertbank.residency.HeatProfileText;
import dev.expertbank.residency.HeatTable;
import dev.expertbank.residency.PolicySettings;
import dev.expertbank.residency.PolicySettings.PinSettings;
import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResidencyPolicies;
import dev.expertbank.residency.simulation.ResidencySimulator;
import dev.expertbank.residency.simulation.RouteTrace;
import dev.expertbank.residency.simulation.SimulationResult;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Recorded routes, once through a session and once through the simulator. */
class LiveRoutesTest {
  private static final int[] BUDGET_PERCENT = {10, 25, 50, 75, 100};
  private static final GraniteRoutes.Prompt PROMPT = GraniteRoutes.prompt("english_prose");

  @TempDir static Path directory;

  private static Path model;
  private static Path profileFile;
  private static HeatProfile profile;
  private static float[][][] expected;

  @BeforeAll
  static void writeModelAndProfile() throws Exception {
    model = RoutedModel.write(directory);
    HeatTable heat = new HeatTable(RoutedModel.LAYOUT, HeatTable.Settings.DEFAULT);
    ResidencySimulator.run(
        GraniteRoutes.prompt("code").trace(),
        new ResidencySimulator.Bank(
            RoutedModel.LAYOUT,
            0,
            0,
            heat,
            ResidencyPolicies.create("lru", new PolicySettings(RoutedModel.LAYOUT))));
    profile = heat.profile();
    profileFile = directory.resolve("code.profile");
    HeatProfileText.save(profile, profileFile);
    expected = runs(Map.of());
  }

  static List<String> policies() {
    return ResidencyPolicies.names();
  }

  @ParameterizedTest
  @MethodSource("policies")
  void hitsAndBytesAreThoseOfTheSimulationForEveryBudget(String policy) throws Exception {
    for (int percent : BUDGET_PERCENT) {
      long budget = RoutedModel.LAYOUT.pageableSlotBytes() * percent / 100;
      Map<String, String> options = new HashMap<>();
      options.put("memory.budget", Long.toString(budget));
      options.put("residency.policy", policy);
      options.put("residency.byte-cap", "300000");
      boolean profiled = policy.equals("static-profile");
      if (profiled) {
        options.put("residency.profile.load", profileFile.toString());
      }
      Optional<HeatProfile> loaded = profiled ? Optional.of(profile) : Optional.empty();
      SimulationResult simulated = simulate(policy, budget, loaded);
      try (var open = SmallQMoe.open(model, options)) {
        for (int run = 0; run < PROMPT.runs().length; run++) {
          assertThat(RoutedModel.run(open.session(), PROMPT.runs()[run]))
              .as("%s, %d %%, run %d", policy, percent, run)
              .isDeepEqualTo(expected[run]);
        }
        ResidencyMetrics metrics =
            open.registration().sessions().getFirst().metrics().orElseThrow();
        assertThat(metrics.totals().use())
            .as("%s, %d %%", policy, percent)
            .isEqualTo(simulated.prefill().plus(simulated.decode()));
        assertThat(metrics.totals().moves()).isEqualTo(simulated.moves());
        assertThat(metrics.totals().applied()).isEqualTo(PROMPT.runs().length);
        assertThat(metrics.peakCommittedBytes()).isLessThanOrEqualTo(budget);
        assertThat(metrics.heldBytes()).isLessThanOrEqualTo(budget).isPositive();
      }
    }
  }

  @Test
  void aSavedProfileIsWhatTheRoutesHaveLeft() throws Exception {
    Path saved = directory.resolve("saved.profile");
    runs(
        Map.of(
            "memory.budget", Long.toString(RoutedModel.LAYOUT.pageableSlotBytes() / 3),
            "residency.policy", "lru",
            "residency.profile.save", saved.toString()));
    HeatTable heat = new HeatTable(RoutedModel.LAYOUT, HeatTable.Settings.DEFAULT);
    ResidencySimulator.run(
        PROMPT.trace(),
        new ResidencySimulator.Bank(
            RoutedModel.LAYOUT,
            0,
            0,
            heat,
            ResidencyPolicies.create("lru", new PolicySettings(RoutedModel.LAYOUT))));
    assertThat(HeatProfileText.load(saved, RoutedModel.LAYOUT)).isEqualTo(heat.profile());
  }

  @Test
  void aRecordOfTheRoutesIsTheTraceThatMadeThem() throws Exception {
    Path recorded = directory.resolve("recorded.json");
    runs(Map.of("routes.record", recorded.toString()));
    RouteTrace trace =
        Objects.requireNonNull(RouteTraceFile.read(recorded).prompts().get("prompt-1"));
    RouteTrace original = PROMPT.trace();
    assertThat(trace.windows()).hasSameSizeAs(original.windows());
    for (int window = 0; window < original.windows().size(); window++) {
      assertThat(trace.windows().get(window))
          .usingRecursiveComparison()
          .isEqualTo(original.windows().get(window));
    }
  }

  private static float[][][] runs(Map<String, String> options) throws Exception {
    float[][][] outputs = new float[PROMPT.runs().length][][];
    try (var open = SmallQMoe.open(model, options)) {
      for (int run = 0; run < outputs.length; run++) {
        outputs[run] = RoutedModel.run(open.session(), PROMPT.runs()[run]);
      }
    }
    return outputs;
  }

  private static SimulationResult simulate(
      String policy, long budget, Optional<HeatProfile> loaded) {
    HeatTable heat =
        loaded
            .map(from -> new HeatTable(RoutedModel.LAYOUT, HeatTable.Settings.DEFAULT, from))
            .orElseGet(() -> new HeatTable(RoutedModel.LAYOUT, HeatTable.Settings.DEFAULT));
    return ResidencySimulator.run(
        PROMPT.trace(),
        new ResidencySimulator.Bank(
            RoutedModel.LAYOUT,
            budget,
            300_000,
            heat,
            ResidencyPolicies.create(
                policy, new PolicySettings(RoutedModel.LAYOUT, loaded, PinSettings.NONE))));
  }
}
