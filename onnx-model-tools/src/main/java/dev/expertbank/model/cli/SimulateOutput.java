package dev.expertbank.model.cli;

import dev.expertbank.model.cli.PolicyComparison.Cost;
import dev.expertbank.model.cli.PolicyComparison.Row;
import dev.expertbank.residency.HeatProfile;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyOutcome.Moves;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.ToLongFunction;

/**
 * The tables, the document and the plot of {@code qmoe simulate}.
 *
 * @param model what was recorded, as the trace names it
 */
record SimulateOutput(String model, PolicyComparison comparison, List<Row> rows) {
  SimulateOutput {
    rows = List.copyOf(rows);
  }

  void tables(PrintWriter out, boolean perPrompt) {
    ResidencyLayout layout = comparison.layout();
    out.println(
        "%s: %d layers, %d experts, %s, %s start"
            .formatted(
                Text.name(model),
                layout.layers().size(),
                layout.keys().size(),
                Text.bytes(layout.pageableSlotBytes()),
                start()));
    Set<String> prompts = comparison.prompts().keySet();
    if (perPrompt) {
      for (String prompt : prompts) {
        out.println();
        out.println("prompt " + Text.name(prompt));
        table(out, List.of(prompt));
      }
    } else {
      out.println();
      out.println(subject());
      table(out, prompts);
    }
  }

  private String start() {
    return comparison.profile().isPresent() ? "warm" : "cold";
  }

  private String subject() {
    Set<String> prompts = comparison.prompts().keySet();
    return prompts.size() == 1
        ? "prompt " + Text.name(prompts.iterator().next())
        : "mean of " + prompts.size() + " prompts";
  }

  private void table(PrintWriter out, Collection<String> prompts) {
    Table table =
        new Table(
            ">budget",
            ">of bank",
            "policy",
            ">bytes/token",
            ">copied",
            ">byte hit rate",
            ">promotions",
            ">evictions");
    for (Row row : rows) {
      List<Cost> costs = costs(row, prompts);
      boolean moves = costs.stream().allMatch(cost -> cost.moves().isPresent());
      table.row(
          Text.bytes(row.budgetBytes()),
          percent(share(row)),
          Text.name(row.policy()),
          bytes(Row.mean(costs, Cost::bytesPerToken)),
          moves ? bytes(Row.mean(costs, Cost::copiedPerToken)) : "-",
          percent(Row.mean(costs, Cost::byteHitRate)),
          moves ? Long.toString(Math.round(mean(costs, Moves::started))) : "-",
          moves ? Long.toString(Math.round(mean(costs, Moves::evicted))) : "-");
    }
    table.print(out, "  ");
  }

  private static List<Cost> costs(Row row, Collection<String> prompts) {
    return row.costs().entrySet().stream()
        .filter(cost -> prompts.contains(cost.getKey()))
        .map(Map.Entry::getValue)
        .toList();
  }

  private static double mean(Collection<Cost> costs, ToLongFunction<Moves> value) {
    return Row.mean(costs, cost -> cost.moves().map(value::applyAsLong).orElse(0L));
  }

  /** The part of the bank that the budget could hold; 0 of a bank that cannot be moved. */
  private double share(Row row) {
    long bank = comparison.layout().pageableSlotBytes();
    return bank == 0 ? 0 : (double) row.budgetBytes() / bank;
  }

  private static String percent(double part) {
    return String.format(Locale.ROOT, "%.1f %%", 100 * part);
  }

  private static String bytes(double bytes) {
    return Text.bytes(Math.round(bytes));
  }

  Map<String, Object> json(String trace, Optional<Path> profile) {
    ResidencyLayout layout = comparison.layout();
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("schema", JsonDocument.SCHEMA);
    json.put("command", "simulate");
    json.put("trace", trace);
    json.put("model", model);
    json.put("identity", HeatProfile.identity(layout));
    json.put("layers", layout.layers().size());
    json.put("experts", layout.keys().size());
    json.put("bankSlotBytes", layout.pageableSlotBytes());
    json.put("byteCap", comparison.byteCap());
    json.put("profile", profile.map(Path::toString).orElse(null));
    json.put("results", rows.stream().map(this::json).toList());
    return json;
  }

  private Map<String, Object> json(Row row) {
    Collection<Cost> costs = row.costs().values();
    Map<String, Object> mean = new LinkedHashMap<>();
    mean.put("bytesPerToken", Row.mean(costs, Cost::bytesPerToken));
    mean.put("byteHitRate", Row.mean(costs, Cost::byteHitRate));
    if (costs.stream().allMatch(cost -> cost.moves().isPresent())) {
      mean.put("promotions", mean(costs, Moves::started));
      mean.put("evictions", mean(costs, Moves::evicted));
    }
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("budgetBytes", row.budgetBytes());
    json.put("budgetShare", share(row));
    json.put("policy", row.policy());
    json.put("reference", row.isReference());
    json.put("mean", mean);
    json.put(
        "prompts",
        row.costs().entrySet().stream().map(e -> json(e.getKey(), e.getValue())).toList());
    return json;
  }

  private static Map<String, Object> json(String prompt, Cost cost) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("prompt", prompt);
    json.put("tokens", cost.tokens());
    json.put("usedBytes", cost.usedBytes());
    json.put("readBytes", cost.readBytes());
    cost.moves()
        .ifPresent(
            moves -> {
              json.put("copiedBytes", moves.startedBytes());
              json.put("promotions", moves.started());
              json.put("evictions", moves.evicted());
            });
    json.put("bytesPerToken", cost.bytesPerToken());
    json.put("byteHitRate", cost.byteHitRate());
    return json;
  }

  /** The mean byte hit rate against the budget, one line for each policy. */
  String plot() {
    Map<String, List<HitRatePlot.Point>> points = new LinkedHashMap<>();
    for (Row row : rows) {
      points
          .computeIfAbsent(row.policy(), _ -> new ArrayList<>())
          .add(
              new HitRatePlot.Point(
                  Math.min(1, share(row)), Row.mean(row.costs().values(), Cost::byteHitRate)));
    }
    List<HitRatePlot.Line> lines =
        points.entrySet().stream()
            .map(
                e ->
                    new HitRatePlot.Line(
                        Text.name(e.getKey()),
                        e.getKey().equals(PolicyComparison.LAYER_SPLIT)
                            || e.getKey().equals(PolicyComparison.BELADY),
                        e.getValue()))
            .toList();
    return new HitRatePlot(
            Text.name(model),
            subject() + ", " + start() + " start",
            "budget, part of the " + Text.bytes(comparison.layout().pageableSlotBytes()) + " bank",
            lines)
        .svg();
  }
}
