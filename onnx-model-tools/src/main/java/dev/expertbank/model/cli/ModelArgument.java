package dev.expertbank.model.cli;

import dev.expertbank.model.DataFile;
import dev.expertbank.model.OnnxModel;
import dev.expertbank.model.OnnxModelReader;
import dev.expertbank.model.QMoeNode;
import java.nio.file.Path;
import java.util.List;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** The model that a command looks at, and how. */
final class ModelArgument {
  @Parameters(
      paramLabel = "MODEL",
      description = "The .onnx file. Its external data is located, but never read.")
  @SuppressWarnings("NullAway.Init") // picocli
  private Path file;

  @Option(names = "--json", description = "Print one JSON document instead of tables.")
  private boolean json;

  @Option(
      names = "--routing",
      paramLabel = "SEMANTICS",
      defaultValue = "ort-cpu",
      description = {
        "Whose reading of the operator decides what is supported: ${COMPLETION-CANDIDATES}.",
        "Default: ${DEFAULT-VALUE}."
      })
  private Routing routing = Routing.ORT_CPU;

  /**
   * What a command reports about.
   *
   * @param nodes the QMoE nodes of the model
   */
  record Looked(OnnxModel model, List<QMoeNode> nodes, List<DataFile> dataFiles) {}

  Looked look() {
    OnnxModel model = OnnxModelReader.read(file);
    return new Looked(model, QMoeNode.of(model, routing.semantics), DataFile.of(model));
  }

  boolean json() {
    return json;
  }
}
