package dev.expertbank.model.cli;

import dev.expertbank.spi.EpException;
import dev.expertbank.spi.Printable;
import java.util.Optional;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.IVersionProvider;
import picocli.CommandLine.ParameterException;

/**
 * The {@code qmoe} command with the subcommands of this module. A program that has more of them
 * adds them to {@link #commandLine()}.
 */
@Command(
    name = "qmoe",
    description =
        "Inspects, catalogues, plans, simulates and synthesises ONNX models with QMoE nodes.",
    mixinStandardHelpOptions = true,
    versionProvider = QMoe.Version.class,
    subcommands = {
      InspectCommand.class,
      CatalogCommand.class,
      PlanCommand.class,
      SimulateCommand.class,
      SynthCommand.class
    },
    exitCodeListHeading = "%nExit codes:%n",
    exitCodeList = {
      "0:success",
      "1:the model has findings, such as data that is missing",
      "2:wrong usage",
      "3:a file cannot be read or written, or is no ONNX model",
      "4:the model is valid, but not supported",
      "70:an error of qmoe itself"
    },
    footer = {"", "Give 'qmoe COMMAND --help' for the options of a command."})
public final class QMoe implements Runnable {
  private static final int MAX_MESSAGE = 2000;

  @CommandLine.Spec
  @SuppressWarnings("NullAway.Init") // picocli
  private CommandLine.Model.CommandSpec spec;

  /**
   * The command line, ready to execute.
   *
   * <p>Errors become one line on standard error and an exit code of {@link ExitCode}; subcommands
   * that are added to it share that.
   */
  public static CommandLine commandLine() {
    return new CommandLine(new QMoe())
        .setExecutionExceptionHandler((exception, command, _) -> report(exception, command))
        .setParameterExceptionHandler((exception, _) -> usage(exception))
        .setCaseInsensitiveEnumValuesAllowed(true);
  }

  /** Without a subcommand there is nothing to do. */
  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "Missing command");
  }

  private static int usage(ParameterException exception) {
    CommandLine command = exception.getCommandLine();
    String message = Printable.escape(String.valueOf(exception.getMessage()), MAX_MESSAGE);
    command.getErr().println("qmoe: " + message);
    command
        .getErr()
        .println("Give '" + command.getCommandSpec().qualifiedName() + " --help' for the usage.");
    return ExitCode.USAGE;
  }

  private static int report(Exception exception, CommandLine command) {
    if (exception instanceof EpException e) {
      String hint = e.code().equals("write.exists") ? "; give --force to replace it" : "";
      command.getErr().println("qmoe: " + e.getMessage() + hint + " [" + e.code() + "]");
      return e.code().startsWith("qmoe.") ? ExitCode.UNSUPPORTED : ExitCode.FILE;
    }
    command.getErr().println("qmoe: internal error; please report what follows");
    exception.printStackTrace(command.getErr());
    return ExitCode.INTERNAL;
  }

  /** The version of the jar. */
  static final class Version implements IVersionProvider {
    @Override
    public String[] getVersion() {
      String version = QMoe.class.getPackage().getImplementationVersion();
      return new String[] {"qmoe " + Optional.ofNullable(version).orElse("(not packaged)")};
    }
  }
}
