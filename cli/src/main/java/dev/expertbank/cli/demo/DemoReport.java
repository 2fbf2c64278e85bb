package dev.expertbank.cli.demo;

import dev.expertbank.model.cli.JsonDocument;
import dev.expertbank.model.cli.Table;
import dev.expertbank.model.cli.Text;
import dev.expertbank.spi.Claim;
import dev.expertbank.spi.PlacementReport;
import dev.expertbank.spi.PlacementReport.NodePlacement;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * What the demo found, as a table and as JSON.
 *
 * @param touchedBytesPerToken bytes of experts that one token reads in all layers; 0 when no node
 *     is supported
 * @param readBytesPerSecond what the threads together read from memory
 */
record DemoReport(
    String model,
    String onnxRuntime,
    int threads,
    long touchedBytesPerToken,
    double readBytesPerSecond,
    List<ArmResult> results) {

  private Optional<ArmResult.Measured> measured(Arm arm) {
    return results.stream()
        .filter(r -> r.arm() == arm)
        .filter(ArmResult.Measured.class::isInstance)
        .map(ArmResult.Measured.class::cast)
        .findFirst();
  }

  /** Milliseconds that reading the experts of one token takes at the measured bandwidth. */
  private double floorMillis() {
    return touchedBytesPerToken / readBytesPerSecond * 1e3;
  }

  void print(PrintWriter out) {
    out.println(model);
    out.printf(Locale.ROOT, "ONNX Runtime %s, %d threads%n%n", onnxRuntime, threads);
    Table table =
        new Table(
            "",
            ">start s",
            ">load s",
            ">resident",
            ">1 token ms",
            ">64 tokens tok/s",
            ">largest diff");
    for (ArmResult result : results) {
      switch (result) {
        case ArmResult.Measured m ->
            table.row(
                m.arm().title(),
                String.format(Locale.ROOT, "%.3f", m.startSeconds()),
                String.format(Locale.ROOT, "%.3f", m.loadSeconds()),
                m.residentBytes().isPresent() ? Text.bytes(m.residentBytes().getAsLong()) : "?",
                String.format(Locale.ROOT, "%.2f", m.tokenMillis()),
                String.format(Locale.ROOT, "%.1f", m.batchTokensPerSecond()),
                difference(m).map(d -> String.format(Locale.ROOT, "%.1e", d)).orElse("-"));
        case ArmResult.Failed f -> table.row(f.arm().title(), "", "failed", "", "", "", "");
      }
    }
    table.print(out, "");
    out.println(
        "start: finding and registering the provider, once per process; load: createSession");
    out.println();
    results.stream()
        .filter(ArmResult.Failed.class::isInstance)
        .map(ArmResult.Failed.class::cast)
        .forEach(f -> out.println(f.arm().title() + " failed: " + f.reason()));
    printRatios(out);
    measured(Arm.EXPERTBANK)
        .flatMap(ArmResult.Measured::placement)
        .ifPresent(placement -> printPlacement(out, placement));
  }

  private void printRatios(PrintWriter out) {
    Optional<ArmResult.Measured> ours = measured(Arm.EXPERTBANK);
    if (ours.isEmpty()) {
      return;
    }
    ArmResult.Measured bank = ours.get();
    for (Arm arm : List.of(Arm.ORT_NO_PREPACKING, Arm.ORT_DEFAULT)) {
      measured(arm)
          .ifPresent(
              other ->
                  out.printf(
                      Locale.ROOT,
                      "against %s: load %.1fx faster, resident 1/%s, 1 token %.1fx faster, 64 tokens"
                          + " %.1fx faster%n",
                      arm.title(),
                      other.loadSeconds() / bank.loadSeconds(),
                      residentRatio(other, bank),
                      other.tokenMillis() / bank.tokenMillis(),
                      bank.batchTokensPerSecond() / other.batchTokensPerSecond()));
    }
    if (touchedBytesPerToken > 0) {
      out.printf(
          Locale.ROOT,
          "one token reads %s of experts; at the %.1f GB/s that this machine reads, that takes %.2f"
              + " ms: %.0f %% of the bound is reached%n",
          Text.bytes(touchedBytesPerToken),
          readBytesPerSecond * 1e-9,
          floorMillis(),
          100 * floorMillis() / bank.tokenMillis());
    }
  }

  private static String residentRatio(ArmResult.Measured other, ArmResult.Measured bank) {
    if (other.residentBytes().isEmpty() || bank.residentBytes().isEmpty()) {
      return "?";
    }
    double ratio =
        (double) other.residentBytes().getAsLong() / Math.max(1, bank.residentBytes().getAsLong());
    return ratio > 1000 ? ">1000" : String.format(Locale.ROOT, "%.1f", ratio);
  }

  private static void printPlacement(PrintWriter out, PlacementReport placement) {
    out.println();
    out.println(
        "expertbank saw "
            + placement.nodes().size()
            + " nodes and claimed "
            + placement.claimed().size()
            + ":");
    Map<String, List<String>> byAnswer = new TreeMap<>();
    for (NodePlacement node : placement.nodes()) {
      byAnswer.computeIfAbsent(answer(node), key -> new ArrayList<>()).add(Text.name(node.node()));
    }
    byAnswer.forEach(
        (answer, nodes) ->
            out.println(
                "  "
                    + answer
                    + ": "
                    + String.join(", ", nodes.subList(0, Math.min(4, nodes.size())))
                    + (nodes.size() > 4 ? " and " + (nodes.size() - 4) + " more" : "")));
  }

  private static String answer(NodePlacement node) {
    String type = Text.name(node.qualifiedType());
    return switch (node.claim()) {
      case Claim.Claimed claimed ->
          "claimed "
              + type
              + (claimed.notes().isEmpty() ? "" : " (" + claimed.notes().getFirst() + ")");
      case Claim.Refused refused ->
          "refused " + type + " [" + refused.code() + "] " + refused.reason();
      case Claim.NotApplicable other -> "left " + type + " to ONNX Runtime, " + other.reason();
    };
  }

  /**
   * The largest difference to the outputs of the first other arm, relative to the largest output.
   */
  private Optional<Double> difference(ArmResult.Measured result) {
    return List.of(Arm.ORT_NO_PREPACKING, Arm.ORT_DEFAULT).stream()
        .flatMap(arm -> measured(arm).stream())
        .filter(other -> other.arm() != result.arm())
        .findFirst()
        .map(other -> difference(result.outputs(), other.outputs()));
  }

  private static double difference(List<float[]> a, List<float[]> b) {
    double largest = 0;
    double difference = 0;
    for (int i = 0; i < a.size(); i++) {
      for (int j = 0; j < a.get(i).length; j++) {
        largest = Math.max(largest, Math.abs(b.get(i)[j]));
        difference = Math.max(difference, Math.abs((double) a.get(i)[j] - b.get(i)[j]));
      }
    }
    return largest == 0 ? difference : difference / largest;
  }

  void printJson(PrintWriter out) {
    Map<String, Object> document = new LinkedHashMap<>();
    document.put("schema", JsonDocument.SCHEMA);
    document.put("model", model);
    document.put("onnxruntime", onnxRuntime);
    document.put("threads", threads);
    document.put("touched_bytes_per_token", touchedBytesPerToken);
    document.put("read_bytes_per_second", readBytesPerSecond);
    document.put("results", results.stream().map(this::json).toList());
    measured(Arm.EXPERTBANK)
        .flatMap(ArmResult.Measured::placement)
        .ifPresent(
            p -> document.put("placement", p.nodes().stream().map(DemoReport::json).toList()));
    JsonDocument.print(out, document);
  }

  private Map<String, Object> json(ArmResult result) {
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("arm", result.arm().id());
    switch (result) {
      case ArmResult.Failed failed -> members.put("error", failed.reason());
      case ArmResult.Measured m -> {
        members.put("start_seconds", m.startSeconds());
        members.put("load_seconds", m.loadSeconds());
        m.residentBytes().ifPresent(bytes -> members.put("resident_bytes", bytes));
        members.put("one_token_milliseconds", m.tokenMillis());
        members.put("batch_tokens_per_second", m.batchTokensPerSecond());
        difference(m).ifPresent(d -> members.put("largest_relative_difference", d));
      }
    }
    return members;
  }

  private static Map<String, Object> json(NodePlacement node) {
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("graph", node.graph());
    members.put("node", node.node());
    members.put("type", node.qualifiedType());
    switch (node.claim()) {
      case Claim.Claimed claimed -> {
        members.put("claimed", true);
        members.put("notes", claimed.notes());
      }
      case Claim.Refused refused -> {
        members.put("claimed", false);
        members.put("code", refused.code());
        members.put("reason", refused.reason());
      }
      case Claim.NotApplicable other -> {
        members.put("claimed", false);
        members.put("reason", other.reason());
      }
    }
    return members;
  }
}
