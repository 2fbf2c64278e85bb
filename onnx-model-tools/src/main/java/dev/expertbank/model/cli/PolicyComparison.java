package dev.expertbank.model.cli;

import dev.expertbank.residency.HeatProfile;
import dev.expertbank.residency.HeatTable;
import dev.expertbank.residency.PolicySettings;
import dev.expertbank.residency.PolicySettings.PinSettings;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyOutcome.Moves;
import dev.expertbank.residency.ResidencyPolicies;
import dev.expertbank.residency.ResidencyPolicy;
import dev.expertbank.residency.simulation.BeladyBound;
import dev.expertbank.residency.simulation.LayerSplitPolicy;
import dev.expertbank.residency.simulation.ResidencySimulator;
import dev.expertbank.residency.simulation.RouteTrace;
import dev.expertbank.residency.simulation.SimulationResult;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.ToDoubleFunction;

/**
 * Simulates every policy with every budget on every prompt, each from the same start.
 *
 * @param byteCap expert bytes that may be copied at one boundary
 * @param profile what is known of the model before; with it every simulation starts warm
 * @param prompts at least one
 */
record PolicyComparison(
    ResidencyLayout layout,
    long byteCap,
    Optional<HeatProfile> profile,
    Map<String, RouteTrace> prompts) {
  /** The reference that keeps whole layers. */
  static final String LAYER_SPLIT = "layer-split";

  /** The reference that knows all routes in advance. */
  static final String BELADY = "belady";

  PolicyComparison {
    prompts = Collections.unmodifiableMap(new LinkedHashMap<>(prompts));
  }

  /**
   * What decoding one prompt has cost.
   *
   * @param tokens that were decoded
   * @param usedBytes expert bytes that decoding has used
   * @param readBytes what of them was read in place
   * @param moves what was promoted and evicted; empty for a bound, which moves nothing
   */
  record Cost(long tokens, long usedBytes, long readBytes, Optional<Moves> moves) {
    double byteHitRate() {
      return (double) (usedBytes - readBytes) / usedBytes;
    }

    double readPerToken() {
      return (double) readBytes / tokens;
    }

    double copiedPerToken() {
      return (double) moves.map(Moves::startedBytes).orElse(0L) / tokens;
    }

    /** Bytes read in place and bytes copied, for each decoded token. */
    double bytesPerToken() {
      return readPerToken() + copiedPerToken();
    }

    private static Cost of(SimulationResult result) {
      return new Cost(
          result.decode().tokens(),
          result.decode().hitBytes() + result.decode().missedBytes(),
          result.decode().missedBytes(),
          Optional.of(result.moves()));
    }

    private static Cost of(BeladyBound.Result bound) {
      return new Cost(bound.tokens(), bound.usedBytes(), bound.readBytes(), Optional.empty());
    }
  }

  /**
   * A policy with a budget.
   *
   * @param costs of each prompt, by its name
   */
  record Row(long budgetBytes, String policy, Map<String, Cost> costs) {
    Row {
      costs = Collections.unmodifiableMap(new LinkedHashMap<>(costs));
    }

    boolean isReference() {
      return policy.equals(LAYER_SPLIT) || policy.equals(BELADY);
    }

    /** The mean over the prompts; each counts alike, whatever its length. */
    static double mean(Collection<Cost> costs, ToDoubleFunction<Cost> value) {
      return costs.stream().mapToDouble(value).average().orElseThrow();
    }
  }

  /**
   * A policy as a bank with this profile would have it.
   *
   * @throws dev.expertbank.spi.EpException if there is none of that name, or it lacks a setting
   */
  ResidencyPolicy policy(String name) {
    return ResidencyPolicies.create(name, new PolicySettings(layout, profile, PinSettings.NONE));
  }

  /** One row for each policy, then the references; and that for each budget. */
  List<Row> run(List<Long> budgets, List<String> policies) {
    List<Row> rows = new ArrayList<>();
    for (long budget : budgets) {
      for (String policy : policies) {
        rows.add(row(budget, policy, trace -> simulate(trace, budget, policy(policy))));
      }
      rows.add(row(budget, LAYER_SPLIT, trace -> simulate(trace, budget, new LayerSplitPolicy())));
      rows.add(row(budget, BELADY, trace -> Cost.of(BeladyBound.of(trace, layout, budget))));
    }
    return rows;
  }

  private Row row(long budget, String policy, Function<RouteTrace, Cost> cost) {
    Map<String, Cost> costs = new LinkedHashMap<>();
    prompts.forEach((name, trace) -> costs.put(name, cost.apply(trace)));
    return new Row(budget, policy, costs);
  }

  private Cost simulate(RouteTrace trace, long budget, ResidencyPolicy policy) {
    HeatTable.Settings settings = HeatTable.Settings.DEFAULT;
    HeatTable heat =
        profile
            .map(known -> new HeatTable(layout, settings, known))
            .orElseGet(() -> new HeatTable(layout, settings));
    return Cost.of(
        ResidencySimulator.run(
            trace, new ResidencySimulator.Bank(layout, budget, byteCap, heat, policy)));
  }
}
