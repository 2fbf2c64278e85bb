package dev.expertbank.model.cli;

import dev.expertbank.model.DataFile;
import dev.expertbank.model.Dimension;
import dev.expertbank.model.OnnxModel;
import dev.expertbank.model.Parameters;
import dev.expertbank.model.QMoeNode;
import dev.expertbank.model.ValueInfo;
import dev.expertbank.spi.qmoe.QMoeReading.Supported;
import dev.expertbank.spi.qmoe.QMoeReading.Unsupported;
import dev.expertbank.spi.qmoe.QMoeSpec;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The document of {@code qmoe inspect --json}. */
final class InspectJson {
  private InspectJson() {}

  static Map<String, Object> document(ModelArgument.Looked looked) {
    OnnxModel model = looked.model();
    Map<String, Object> json = header("inspect", looked);
    json.put("irVersion", model.irVersion());
    json.put("producerName", model.producerName());
    json.put("producerVersion", model.producerVersion());
    json.put("opsets", model.opsets());
    json.put("graphs", model.graphs().count() - model.functions().size());
    json.put("functions", model.functions().size());
    json.put("nodes", model.graphs().mapToLong(g -> g.nodes().size()).sum());
    json.put("parameters", Parameters.count(model, looked.nodes()));
    json.put("modelBytes", model.fileBytes());
    json.put("inlineTensorBytes", model.inlineBytes());
    json.put("externalTensorBytes", model.externalBytes());
    json.put("inputs", model.graph().inputs().stream().map(InspectJson::value).toList());
    json.put("outputs", model.graph().outputs().stream().map(InspectJson::value).toList());
    json.put("operators", model.operatorCounts());
    json.put("qmoeNodes", looked.nodes().stream().map(InspectJson::node).toList());
    return json;
  }

  /** What the documents of all commands begin with. */
  static Map<String, Object> header(String command, ModelArgument.Looked looked) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("schema", JsonDocument.SCHEMA);
    json.put("command", command);
    json.put("file", looked.model().file().toString());
    json.put("dataFiles", looked.dataFiles().stream().map(InspectJson::dataFile).toList());
    return json;
  }

  private static Map<String, Object> dataFile(DataFile file) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("location", file.location());
    file.file().ifPresent(f -> json.put("bytes", f.size()));
    file.problem()
        .ifPresent(
            e -> {
              json.put("code", e.code());
              json.put("problem", String.valueOf(e.getMessage()));
            });
    return json;
  }

  private static Map<String, Object> value(ValueInfo value) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("name", value.name());
    json.put("type", Text.type(value.elementType()));
    value
        .dims()
        .ifPresent(dims -> json.put("shape", dims.stream().map(InspectJson::dimension).toList()));
    return json;
  }

  private static Object dimension(Dimension dimension) {
    return dimension.isFixed() ? dimension.size() : dimension.toString();
  }

  /** A node, and what it computes or why it is not supported. */
  static Map<String, Object> node(QMoeNode node) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("graph", node.graph());
    json.put("name", node.name());
    switch (node.reading()) {
      case Unsupported(String code, String reason) -> {
        json.put("claimable", false);
        json.put("code", code);
        json.put("reason", reason);
      }
      case Supported(QMoeSpec spec, List<String> notes) -> {
        json.put("claimable", true);
        json.put("notes", notes);
        json.put("devices", Devices.of(spec));
        json.put("layout", Text.layout(spec.layout()));
        json.put("layoutStated", node.layoutIsStated());
        spec(json, spec);
      }
    }
    return json;
  }

  private static void spec(Map<String, Object> json, QMoeSpec spec) {
    json.put("experts", spec.experts());
    json.put("topK", spec.topK());
    json.put("hidden", spec.hidden());
    json.put("inter", spec.inter());
    json.put("bits", spec.bits());
    json.put("blockSize", spec.blockSize());
    json.put("activation", spec.activation().schemaName());
    json.put("swigluFusion", spec.swigluFusion());
    json.put("fc3", spec.fc3());
    json.put("alpha", spec.alpha());
    json.put("beta", spec.beta());
    json.put("limit", Float.isFinite(spec.limit()) ? spec.limit() : null);
    json.put("ioType", Text.type(spec.ioType()));
    json.put("scaleType", Text.type(spec.scaleType()));
    json.put("normalizeRoutingWeights", spec.normalizeRoutingWeights());
    json.put("routerWeights", spec.routerWeights());
    json.put("routing", spec.routing().name().toLowerCase(Locale.ROOT).replace('_', '-'));
    json.put("bytesPerExpert", spec.bytesPerExpert());
    json.put("bytes", Math.multiplyExact(spec.bytesPerExpert(), (long) spec.experts()));
  }
}
