package dev.expertbank.model.cli;

import java.io.PrintWriter;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code qmoe inspect}: what is in a model, and which of its QMoE nodes can be claimed. */
@Command(
    name = "inspect",
    description = "Shows what is in a model, and which of its QMoE nodes the provider can claim.",
    mixinStandardHelpOptions = true,
    exitCodeListHeading = "%nExit codes:%n",
    exitCodeList = {
      "0:the model was shown, whatever was found in it",
      "2:wrong usage",
      "3:the file cannot be read, or is no ONNX model",
      "70:an error of qmoe itself"
    })
final class InspectCommand implements Callable<Integer> {
  @Mixin
  @SuppressWarnings("NullAway.Init") // picocli
  private ModelArgument model;

  @Option(names = "--all", description = "List every QMoE node on its own.")
  private boolean all;

  @CommandLine.Spec
  @SuppressWarnings("NullAway.Init") // picocli
  private CommandLine.Model.CommandSpec spec;

  @Override
  public Integer call() {
    ModelArgument.Looked looked = model.look();
    PrintWriter out = spec.commandLine().getOut();
    if (model.json()) {
      JsonDocument.print(out, InspectJson.document(looked));
    } else {
      new InspectTables(looked, out).print(all);
    }
    return ExitCode.OK;
  }
}
