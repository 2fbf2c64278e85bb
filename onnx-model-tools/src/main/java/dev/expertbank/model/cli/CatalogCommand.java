package dev.expertbank.model.cli;

import dev.expertbank.model.DataFile;
import dev.expertbank.model.QMoeNode;
import dev.expertbank.spi.qmoe.ExpertRegion;
import dev.expertbank.spi.qmoe.Pageability;
import dev.expertbank.spi.qmoe.QMoeCatalog;
import dev.expertbank.spi.qmoe.QMoeReading.Supported;
import dev.expertbank.spi.qmoe.QMoeReading.Unsupported;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.WeightRegionCatalog;
import java.io.PrintWriter;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code qmoe catalog}: where the bytes of every expert are. */
@Command(
    name = "catalog",
    description = "Shows where the bytes of every expert of every QMoE node are.",
    mixinStandardHelpOptions = true,
    exitCodeListHeading = "%nExit codes:%n",
    exitCodeList = {
      "0:every expert of every QMoE node has its bytes in external data",
      "1:external data is missing, or shorter than the model says",
      "2:wrong usage",
      "3:the file cannot be read, or is no ONNX model",
      "4:a QMoE node is not supported, or its experts cannot be told apart",
      "70:an error of qmoe itself"
    })
final class CatalogCommand implements Callable<Integer> {
  @Mixin
  @SuppressWarnings("NullAway.Init") // picocli
  private ModelArgument model;

  @Option(names = "--experts", description = "List every expert of every tensor.")
  private boolean experts;

  @CommandLine.Spec
  @SuppressWarnings("NullAway.Init") // picocli
  private CommandLine.Model.CommandSpec spec;

  @Override
  public Integer call() {
    ModelArgument.Looked looked = model.look();
    PrintWriter out = spec.commandLine().getOut();
    if (model.json()) {
      Map<String, Object> json = InspectJson.header("catalog", looked);
      json.put("qmoeNodes", looked.nodes().stream().map(CatalogCommand::json).toList());
      JsonDocument.print(out, json);
    } else {
      tables(looked, out);
    }
    return exitCode(looked, spec.commandLine().getErr());
  }

  /** Says what is wrong with the model's experts, and which exit code that is. */
  static int exitCode(ModelArgument.Looked looked, PrintWriter err) {
    List<DataFile> broken =
        looked.dataFiles().stream().filter(f -> f.problem().isPresent()).toList();
    broken.forEach(
        f ->
            f.problem()
                .ifPresent(e -> err.println("qmoe: " + e.getMessage() + " [" + e.code() + "]")));
    if (!broken.isEmpty()) {
      return ExitCode.FINDINGS;
    }
    return looked.nodes().stream()
            .allMatch(n -> n.catalog().map(QMoeCatalog::isComplete).orElse(false))
        ? ExitCode.OK
        : ExitCode.UNSUPPORTED;
  }

  private void tables(ModelArgument.Looked looked, PrintWriter out) {
    if (looked.nodes().isEmpty()) {
      out.println("no " + QMoeNode.TYPE + " nodes");
    }
    for (QMoeNode node : looked.nodes()) {
      out.print(Text.name(node.name()) + " (graph " + Text.name(node.graph()) + ")");
      switch (node.reading()) {
        case Unsupported(String code, String reason) ->
            out.println(": " + reason + " [" + code + "]");
        case Supported(QMoeSpec layer, List<String> _) ->
            table(layer, node.catalog().orElseThrow(), out);
      }
    }
  }

  private void table(QMoeSpec layer, QMoeCatalog catalog, PrintWriter out) {
    String limit = Devices.limit(layer);
    out.println(
        ": "
            + catalog.experts()
            + " experts"
            + (catalog.isComplete()
                ? " of " + Text.bytes(catalog.groupBytes())
                : ", not all tensors pageable")
            + (limit.isEmpty() ? "" : "; " + limit));
    Table table = new Table("input", "type", ">expert", "file", ">offset", ">length", "pageable");
    for (QMoeCatalog.Entry entry : catalog.tensors()) {
      WeightRegionCatalog regions = entry.regions();
      table.row(row(entry, "all", regions.tensorOffset(), regions.tensorLength()));
      if (experts) {
        for (ExpertRegion region : regions.regions()) {
          table.row(
              row(entry, Integer.toString(region.expert()), region.offset(), region.length()));
        }
      }
    }
    table.print(out, "  ");
  }

  private static String[] row(QMoeCatalog.Entry entry, String expert, long offset, long length) {
    WeightRegionCatalog regions = entry.regions();
    return new String[] {
      entry.input().schemaName(),
      Text.type(regions.elementType()),
      expert,
      regions.location().map(Text::name).orElse("-"),
      regions.location().isPresent() ? Long.toString(offset) : "-",
      Long.toString(length),
      regions.pageability() instanceof Pageability.NonPageable(var reason)
          ? "no: " + reason.text()
          : "yes"
    };
  }

  private static Map<String, Object> json(QMoeNode node) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("graph", node.graph());
    json.put("name", node.name());
    switch (node.reading()) {
      case Unsupported(String code, String reason) -> {
        json.put("claimable", false);
        json.put("code", code);
        json.put("reason", reason);
      }
      case Supported(QMoeSpec layer, List<String> _) -> {
        QMoeCatalog catalog = node.catalog().orElseThrow();
        json.put("claimable", true);
        json.put("devices", Devices.of(layer));
        json.put("experts", catalog.experts());
        json.put("complete", catalog.isComplete());
        if (catalog.isComplete()) {
          json.put("bytesPerExpert", catalog.groupBytes());
        }
        json.put("tensors", catalog.tensors().stream().map(CatalogCommand::json).toList());
      }
    }
    return json;
  }

  private static Map<String, Object> json(QMoeCatalog.Entry entry) {
    WeightRegionCatalog regions = entry.regions();
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("input", entry.input().schemaName());
    json.put("name", entry.name());
    json.put("type", Text.type(regions.elementType()));
    regions
        .location()
        .ifPresent(
            location -> {
              json.put("file", location);
              json.put("offset", regions.tensorOffset());
            });
    json.put("length", regions.tensorLength());
    json.put("pageable", regions.isPageable());
    if (regions.pageability() instanceof Pageability.NonPageable(var reason)) {
      json.put("reason", reason.text());
    }
    json.put("regions", regions.regions().stream().map(CatalogCommand::json).toList());
    return json;
  }

  private static Map<String, Object> json(ExpertRegion region) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("expert", region.expert());
    json.put("offset", region.offset());
    json.put("length", region.length());
    return json;
  }
}
