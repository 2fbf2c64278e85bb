package dev.expertbank.model.cli;

import dev.expertbank.model.QMoeNode;
import dev.expertbank.model.ResidencyLayouts;
import dev.expertbank.residency.HeatProfile;
import dev.expertbank.residency.HeatProfileText;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.spi.qmoe.QMoeReading.Supported;
import dev.expertbank.spi.qmoe.QMoeReading.Unsupported;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code qmoe plan}: what would be resident with a budget. */
@Command(
    name = "plan",
    description = {
      "Shows which experts a budget would hold, and why others stay in the model file.",
      "With a profile, the most used experts come first, as policy static-profile ranks them."
          + " Without one no routes are known: then it shows how many experts of every layer fit.",
      "A slot holds one expert with its padding, in multiples of 4096 bytes as on the host device.",
      ""
    },
    mixinStandardHelpOptions = true,
    sortOptions = false,
    exitCodeListHeading = "%nExit codes:%n",
    exitCodeList = {
      "0:the plan was printed",
      "1:external data is missing, or shorter than the model says",
      "2:wrong usage",
      "3:a file cannot be read, is no ONNX model, or is a profile of another model",
      "4:a QMoE node is not supported, or its experts cannot be told apart; or there is none",
      "70:an error of qmoe itself"
    },
    footer = {
      "",
      "Examples:",
      "  qmoe plan model.onnx --budget 8GiB",
      "  qmoe plan model.onnx --budget 25%% --profile heat.txt"
    })
final class PlanCommand implements Callable<Integer> {
  @Mixin
  @SuppressWarnings("NullAway.Init") // picocli
  private ModelArgument model;

  @Option(
      names = "--budget",
      paramLabel = "BUDGET",
      required = true,
      converter = Budget.Converter.class,
      description = "Bytes such as 8GiB, or a part of what all experts take, such as 25%%.")
  @SuppressWarnings("NullAway.Init") // picocli
  private Budget budget;

  @Option(
      names = "--profile",
      paramLabel = "FILE",
      description = "Which experts are used, as residency.profile.save has written it.")
  private @Nullable Path profile;

  @CommandLine.Spec
  @SuppressWarnings("NullAway.Init") // picocli
  private CommandLine.Model.CommandSpec spec;

  @Override
  public Integer call() {
    ModelArgument.Looked looked = model.look();
    ResidencyLayout layout = ResidencyLayouts.of(looked.nodes());
    Optional<HeatProfile> known =
        Optional.ofNullable(profile).map(file -> HeatProfileText.load(file, layout));
    PlannedResidency plan =
        PlannedResidency.of(layout, budget.bytes(layout.pageableSlotBytes()), known);
    PrintWriter out = spec.commandLine().getOut();
    if (model.json()) {
      JsonDocument.print(out, json(looked, layout, plan));
    } else {
      tables(looked, layout, plan, out);
    }
    return CatalogCommand.exitCode(looked, spec.commandLine().getErr());
  }

  private void tables(
      ModelArgument.Looked looked, ResidencyLayout layout, PlannedResidency plan, PrintWriter out) {
    out.println(
        "budget    "
            + Text.bytes(plan.budgetBytes())
            + " of the "
            + Text.bytes(layout.pageableSlotBytes())
            + " that all slots take");
    out.println(
        profile == null
            ? "profile   none: no routes are known; every layer gets its share"
            : "profile   " + Text.name(profile.toString()));
    out.println(
        "resident  %d of %d experts, %s in slots, %s of the budget left"
            .formatted(
                plan.resident(),
                plan.experts(),
                Text.bytes(plan.residentSlotBytes()),
                Text.bytes(plan.budgetBytes() - plan.residentSlotBytes())));
    out.println(
        "bank      %s of %s, %s"
            .formatted(
                Text.bytes(plan.residentExpertBytes()),
                Text.bytes(plan.expertBytes()),
                percent((double) plan.residentExpertBytes() / plan.expertBytes())));
    plan.byteHitRate()
        .ifPresent(
            rate -> out.println("hit rate  " + percent(rate) + " of the bytes that are used"));
    out.println();
    table(looked, plan).print(out, "");
    for (QMoeNode node : looked.nodes()) {
      if (node.reading() instanceof Unsupported(String code, String reason)) {
        out.println("not planned: " + Text.name(node.name()) + ": " + reason + " [" + code + "]");
      }
    }
  }

  private Table table(ModelArgument.Looked looked, PlannedResidency plan) {
    Table table =
        new Table(
            ">layer",
            "node",
            ">experts",
            ">top k",
            ">expert",
            ">slot",
            ">resident",
            ">bytes",
            ">of routes",
            "not resident");
    List<QMoeNode> nodes = supported(looked);
    for (int i = 0; i < nodes.size(); i++) {
      PlannedResidency.Layer layer = plan.layers().get(i);
      table.row(
          Integer.toString(i),
          Text.name(nodes.get(i).name()),
          Integer.toString(layer.shape().experts()),
          Integer.toString(layer.shape().topK()),
          Text.bytes(layer.shape().expertBytes()),
          layer.shape().isPageable() ? Text.bytes(layer.shape().slotBytes()) : "-",
          Integer.toString(layer.resident().size()),
          Text.bytes(layer.residentSlotBytes()),
          layer.use().isPresent() ? percent(layer.use().getAsDouble()) : "-",
          String.join(", ", reasons(layer)));
    }
    return table;
  }

  private static List<String> reasons(PlannedResidency.Layer layer) {
    List<String> reasons = new ArrayList<>();
    layer.obstacle().ifPresent(text -> reasons.add("all: " + text));
    if (layer.withoutRoom() > 0) {
      reasons.add(layer.withoutRoom() + " do not fit");
    }
    if (layer.unused() > 0) {
      reasons.add(layer.unused() + " not used in the profile");
    }
    return reasons;
  }

  /** The nodes that are layers, in their order. */
  private static List<QMoeNode> supported(ModelArgument.Looked looked) {
    return looked.nodes().stream().filter(node -> node.reading() instanceof Supported).toList();
  }

  private static String percent(double part) {
    return String.format(Locale.ROOT, "%.1f %%", 100 * part);
  }

  private Map<String, Object> json(
      ModelArgument.Looked looked, ResidencyLayout layout, PlannedResidency plan) {
    Map<String, Object> json = InspectJson.header("plan", looked);
    json.put("identity", HeatProfile.identity(layout));
    json.put("profile", profile == null ? null : profile.toString());
    json.put("budgetBytes", plan.budgetBytes());
    json.put("bankSlotBytes", layout.pageableSlotBytes());
    json.put("bankBytes", plan.expertBytes());
    json.put("experts", plan.experts());
    json.put("residentExperts", plan.resident());
    json.put("residentSlotBytes", plan.residentSlotBytes());
    json.put("residentBytes", plan.residentExpertBytes());
    putIfPresent(json, "byteHitRate", plan.byteHitRate());
    List<QMoeNode> nodes = supported(looked);
    List<Map<String, Object>> layers = new ArrayList<>();
    for (int i = 0; i < nodes.size(); i++) {
      layers.add(json(i, nodes.get(i), plan.layers().get(i)));
    }
    json.put("layers", layers);
    json.put(
        "notPlanned",
        looked.nodes().stream()
            .filter(node -> node.reading() instanceof Unsupported)
            .map(InspectJson::node)
            .toList());
    return json;
  }

  private Map<String, Object> json(int number, QMoeNode node, PlannedResidency.Layer layer) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("layer", number);
    json.put("graph", node.graph());
    json.put("name", node.name());
    json.put("experts", layer.shape().experts());
    json.put("topK", layer.shape().topK());
    json.put("bytesPerExpert", layer.shape().expertBytes());
    json.put("pageable", layer.shape().isPageable());
    layer.obstacle().ifPresent(reason -> json.put("reason", reason));
    if (layer.shape().isPageable()) {
      json.put("slotBytes", layer.shape().slotBytes());
    }
    json.put("residentExperts", layer.resident().size());
    json.put("residentSlotBytes", layer.residentSlotBytes());
    json.put("doNotFit", layer.withoutRoom());
    if (profile != null) {
      json.put("notUsed", layer.unused());
      json.put("resident", layer.resident());
    }
    putIfPresent(json, "useShare", layer.use());
    return json;
  }

  private static void putIfPresent(Map<String, Object> json, String member, OptionalDouble value) {
    if (value.isPresent()) {
      json.put(member, value.getAsDouble());
    }
  }
}
