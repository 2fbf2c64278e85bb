package dev.expertbank.model.cli;

import dev.expertbank.model.DataFile;
import dev.expertbank.model.OnnxModel;
import dev.expertbank.model.Parameters;
import dev.expertbank.model.QMoeNode;
import dev.expertbank.model.ValueInfo;
import dev.expertbank.spi.Printable;
import dev.expertbank.spi.qmoe.QMoeInput;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.QMoeReading.Supported;
import dev.expertbank.spi.qmoe.QMoeReading.Unsupported;
import dev.expertbank.spi.qmoe.QMoeSpec;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/** The screen of {@code qmoe inspect}. */
final class InspectTables {
  /** Operator types shown; a model has few, a hostile file may have thousands. */
  private static final int MAX_OPERATORS = 20;

  private static final int MAX_VALUES = 20;
  private static final int MAX_PATH_CHARACTERS = 400;

  private final OnnxModel model;
  private final List<QMoeNode> nodes;
  private final List<DataFile> dataFiles;
  private final PrintWriter out;

  InspectTables(ModelArgument.Looked looked, PrintWriter out) {
    this.model = looked.model();
    this.nodes = looked.nodes();
    this.dataFiles = looked.dataFiles();
    this.out = out;
  }

  /**
   * Prints the screen.
   *
   * @param all one row per QMoE node, instead of one per kind
   */
  void print(boolean all) {
    summary();
    dataFiles();
    values("inputs", model.graph().inputs());
    values("outputs", model.graph().outputs());
    operators();
    qmoeNodes(all);
  }

  private void summary() {
    out.println("file        " + Printable.escape(model.file().toString(), MAX_PATH_CHARACTERS));
    String opsets =
        model.opsets().entrySet().stream()
            .map(e -> Text.name(e.getKey()) + " " + e.getValue())
            .collect(Collectors.joining(", "));
    out.println("format      IR " + model.irVersion() + (opsets.isEmpty() ? "" : ", " + opsets));
    out.println(
        "producer    "
            + (model.producerName().isEmpty()
                ? "(not stated)"
                : Text.name((model.producerName() + " " + model.producerVersion()).strip())));
    long graphs = model.graphs().count() - model.functions().size();
    long nodeCount = model.graphs().mapToLong(g -> g.nodes().size()).sum();
    out.println(
        "graphs      "
            + graphs
            + (model.functions().isEmpty() ? "" : ", functions " + model.functions().size())
            + ", nodes "
            + nodeCount);
    out.println("parameters  " + Text.count(Parameters.count(model, nodes)));
    out.println(
        "bytes       model file "
            + Text.bytes(model.fileBytes())
            + " (tensors "
            + Text.bytes(model.inlineBytes())
            + "), external data "
            + Text.bytes(model.externalBytes()));
  }

  private void dataFiles() {
    if (dataFiles.isEmpty()) {
      return;
    }
    out.println();
    out.println("external data");
    for (DataFile file : dataFiles) {
      out.println(
          "  "
              + Text.name(file.location())
              + file.file().map(f -> "  " + Text.bytes(f.size())).orElse("")
              + file.problem()
                  .map(e -> "  PROBLEM: " + e.getMessage() + " [" + e.code() + "]")
                  .orElse(""));
    }
  }

  private void values(String title, List<ValueInfo> values) {
    out.println();
    out.println(title);
    Table table = new Table("name", "type", "shape");
    values.stream()
        .limit(MAX_VALUES)
        .forEach(v -> table.row(Text.name(v.name()), Text.type(v.elementType()), Text.shape(v)));
    table.print(out, "  ");
    more(values.size() - MAX_VALUES, title);
  }

  private void operators() {
    out.println();
    out.println("operators");
    Map<String, Long> counts = model.operatorCounts();
    Table table = new Table(">nodes", "type");
    counts.entrySet().stream()
        .sorted(
            Map.Entry.<String, Long>comparingByValue()
                .reversed()
                .thenComparing(Map.Entry.comparingByKey()))
        .limit(MAX_OPERATORS)
        .forEach(e -> table.row(Long.toString(e.getValue()), Text.name(e.getKey())));
    table.print(out, "  ");
    more(counts.size() - MAX_OPERATORS, "types");
  }

  private void more(int count, String what) {
    if (count > 0) {
      out.println("  and " + count + " more " + what + ": see --json");
    }
  }

  private void qmoeNodes(boolean all) {
    out.println();
    if (nodes.isEmpty()) {
      out.println("no " + QMoeNode.TYPE + " nodes");
      return;
    }
    out.println("QMoE nodes");
    Table table =
        new Table(
            ">nodes",
            ">experts",
            ">k",
            ">hidden",
            ">inter",
            ">bits",
            ">block",
            "layout",
            "activation",
            "with",
            "type",
            "scales",
            ">bytes/expert",
            "claimable",
            "first node");
    for (List<QMoeNode> group : all ? nodes.stream().map(List::of).toList() : groups()) {
      table.row(row(group));
    }
    table.print(out, "  ");
    reasons(all);
    notes();
  }

  /** Nodes that differ in nothing but their names, in file order. */
  private List<List<QMoeNode>> groups() {
    Map<List<Object>, List<QMoeNode>> groups = new LinkedHashMap<>();
    for (QMoeNode node : nodes) {
      List<Object> key =
          switch (node.reading()) {
            case Supported(QMoeSpec spec, List<String> notes) ->
                List.of(spec, notes, node.layoutIsStated());
            case Unsupported(String code, String _) -> List.of(code);
          };
      groups.computeIfAbsent(key, _ -> new ArrayList<>()).add(node);
    }
    return List.copyOf(groups.values());
  }

  private static String[] row(List<QMoeNode> group) {
    QMoeNode first = group.getFirst();
    String count = Integer.toString(group.size());
    String name = Text.name(first.name());
    return switch (first.reading()) {
      case Unsupported(String code, String _) ->
          new String[] {
            count, "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "no: " + code, name
          };
      case Supported(QMoeSpec spec, List<String> _) ->
          new String[] {
            count,
            Integer.toString(spec.experts()),
            Integer.toString(spec.topK()),
            Integer.toString(spec.hidden()),
            Integer.toString(spec.inter()),
            Integer.toString(spec.bits()),
            spec.blockSize() == 0 ? "row" : Integer.toString(spec.blockSize()),
            Text.layout(spec.layout()) + (first.layoutIsStated() ? "" : ", assumed"),
            spec.activation().schemaName(),
            extras(spec),
            Text.type(spec.ioType()),
            Text.type(spec.scaleType()),
            Text.bytes(spec.bytesPerExpert()),
            Devices.limit(spec).isEmpty() ? "yes" : Devices.limit(spec),
            name
          };
    };
  }

  private static String extras(QMoeSpec spec) {
    List<String> extras = new ArrayList<>();
    if (spec.fc3()) {
      extras.add("fc3");
    }
    if (spec.tensors().stream().anyMatch(t -> t.input().role() == QMoeInput.Role.BIAS)) {
      extras.add("bias");
    }
    if (spec.tensors().stream().anyMatch(t -> t.input().role() == QMoeInput.Role.ZERO_POINTS)) {
      extras.add("zp");
    }
    return extras.isEmpty() ? "-" : String.join(" ", extras);
  }

  /** Why nodes cannot be claimed: the first node of each code, or every node. */
  private void reasons(boolean all) {
    Set<String> codes = new LinkedHashSet<>();
    for (QMoeNode node : nodes) {
      if (node.reading() instanceof Unsupported(String code, String reason)
          && (codes.add(code) || all)) {
        out.println("  " + Text.name(node.name()) + ": " + reason + " [" + code + "]");
      }
    }
  }

  private void notes() {
    Set<String> notes = new LinkedHashSet<>();
    for (QMoeNode node : nodes) {
      if (node.reading() instanceof QMoeReading.Supported supported) {
        notes.addAll(supported.notes());
      }
    }
    notes.forEach(note -> out.println("  note: " + note));
  }
}
