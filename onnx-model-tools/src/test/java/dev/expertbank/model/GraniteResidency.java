package dev.expertbank.model;

import dev.expertbank.residency.HeatProfile;
import dev.expertbank.residency.HeatTable;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.PolicySettings;
import dev.expertbank.residency.PolicySettings.PinSettings;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyPolicies;
import dev.expertbank.residency.ResidencyPolicy;
import dev.expertbank.residency.policy.LruPolicy;
import dev.expertbank.residency.simulation.BeladyBound;
import dev.expertbank.residency.simulation.LayerSplitPolicy;
import dev.expertbank.residency.simulation.ResidencySimulator;
import dev.expertbank.residency.simulation.RouteTrace;
import dev.expertbank.residency.simulation.SimulationResult;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.function.Function;

/** The recorded routes of a real model, and what residency makes of them. */
final class GraniteResidency {
  /** An expert in 4 bits: 0.75 MiB. */
  static final long EXPERT_BYTES = 3 << 18;

  static final ResidencyLayout LAYOUT =
      new ResidencyLayout(
          Collections.nCopies(24, LayerLayout.pageable(32, 8, EXPERT_BYTES, EXPERT_BYTES)));

  private static final double MIB = 1 << 20;

  private final Map<String, RouteTrace> prompts;

  GraniteResidency() {
    prompts = RouteTraceFile.read(file()).prompts();
  }

  private static Path file() {
    try {
      return Path.of(
          Objects.requireNonNull(
                  GraniteResidency.class.getResource("/routes/granite-3.0-1b-a400m.json"))
              .toURI());
    } catch (URISyntaxException e) {
      throw new IllegalStateException(e);
    }
  }

  List<String> prompts() {
    return List.copyOf(prompts.keySet());
  }

  RouteTrace trace(String prompt) {
    return Objects.requireNonNull(prompts.get(prompt));
  }

  static long budget(int percent) {
    return LAYOUT.pageableSlotBytes() * percent / 100;
  }

  /** What the other prompts have used, every row alike. */
  HeatProfile profileOfOthers(String prompt) {
    RouteTrace others =
        prompts.keySet().stream()
            .filter(other -> !other.equals(prompt))
            .map(this::trace)
            .reduce(RouteTrace::then)
            .orElseThrow();
    HeatTable heat = new HeatTable(LAYOUT, new HeatTable.Settings(1, Double.MAX_VALUE, 1));
    ResidencySimulator.run(
        others, new ResidencySimulator.Bank(LAYOUT, 0, 0, heat, new LruPolicy()));
    return heat.profile();
  }

  /** A run that knows nothing before; static-profile and hot-set know what their settings say. */
  SimulationResult cold(String prompt, String policy, int percent) {
    return run(prompt, policy(prompt, policy, percent), Optional.empty(), percent);
  }

  /** A run whose heat starts with the profile of the other prompts. */
  SimulationResult warm(String prompt, String policy, int percent) {
    return run(
        prompt, policy(prompt, policy, percent), Optional.of(profileOfOthers(prompt)), percent);
  }

  private ResidencyPolicy policy(String prompt, String policy, int percent) {
    if (policy.equals("layer-split")) {
      return new LayerSplitPolicy();
    }
    PinSettings pins =
        new PinSettings(List.of(), OptionalDouble.of(0.25), OptionalLong.of(budget(percent)), true);
    return ResidencyPolicies.create(
        policy, new PolicySettings(LAYOUT, Optional.of(profileOfOthers(prompt)), pins));
  }

  private SimulationResult run(
      String prompt, ResidencyPolicy policy, Optional<HeatProfile> profile, int percent) {
    HeatTable.Settings settings = HeatTable.Settings.DEFAULT;
    HeatTable heat =
        profile
            .map(known -> new HeatTable(LAYOUT, settings, known))
            .orElseGet(() -> new HeatTable(LAYOUT, settings));
    return ResidencySimulator.run(
        trace(prompt),
        new ResidencySimulator.Bank(LAYOUT, budget(percent), Long.MAX_VALUE, heat, policy));
  }

  BeladyBound.Result bound(String prompt, int percent) {
    return BeladyBound.of(trace(prompt), LAYOUT, budget(percent));
  }

  /** Prints bytes per token and byte hit rates for all policies and budgets, as Markdown. */
  @SuppressWarnings("SystemOut")
  public static void main(String[] args) {
    GraniteResidency granite = new GraniteResidency();
    System.out.println(
        "| budget | policy | MiB per token: "
            + String.join(", ", granite.prompts())
            + " | mean | of it copied | byte hit rate | promotions |");
    System.out.println("|---|---|---|---|---|---|---|");
    for (int percent : new int[] {10, 25, 50, 75, 100}) {
      for (String policy :
          List.of("whole-bank", "layer-split", "lru", "hot-set", "static-profile", "adaptive")) {
        print(percent + " % | " + policy, granite.all(p -> granite.cold(p, policy, percent)));
      }
      print(
          percent + " % | adaptive, warm", granite.all(p -> granite.warm(p, "adaptive", percent)));
      granite.printBound(percent);
    }
  }

  private List<SimulationResult> all(Function<String, SimulationResult> simulation) {
    return prompts().stream().map(simulation).toList();
  }

  private static void print(String name, List<SimulationResult> results) {
    List<String> each = new ArrayList<>();
    for (SimulationResult result : results) {
      each.add("%.1f".formatted(result.bytesPerToken() / MIB));
    }
    System.out.printf(
        "| %s | %s | %.1f | %.1f | %.1f %% | %.0f |%n",
        name,
        String.join(", ", each),
        results.stream().mapToDouble(r -> r.bytesPerToken() / MIB).average().orElseThrow(),
        results.stream()
            .mapToDouble(r -> r.moves().startedBytes() / MIB / r.decode().tokens())
            .average()
            .orElseThrow(),
        results.stream().mapToDouble(r -> 100 * r.byteHitRate()).average().orElseThrow(),
        results.stream().mapToLong(r -> r.moves().started()).average().orElseThrow());
  }

  private void printBound(int percent) {
    List<BeladyBound.Result> bounds = prompts().stream().map(p -> bound(p, percent)).toList();
    System.out.printf(
        "| %d %% | Belady's bound | %s | %.1f | | %.1f %% | |%n",
        percent,
        String.join(
            ", ", bounds.stream().map(b -> "%.1f".formatted(b.bytesPerToken() / MIB)).toList()),
        bounds.stream().mapToDouble(b -> b.bytesPerToken() / MIB).average().orElseThrow(),
        bounds.stream().mapToDouble(b -> 100 * b.byteHitRate()).average().orElseThrow());
  }
}
