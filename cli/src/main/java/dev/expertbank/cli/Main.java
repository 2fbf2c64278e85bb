package dev.expertbank.cli;

import dev.expertbank.cli.demo.DemoCommand;
import dev.expertbank.model.cli.QMoe;
import picocli.CommandLine;

/** Runs {@code qmoe}: the commands of the model tools, and those that need the provider. */
public final class Main {
  private Main() {}

  /** Ends the VM with an exit code of {@link dev.expertbank.model.cli.ExitCode}. */
  public static void main(String[] arguments) {
    CommandLine qmoe = QMoe.commandLine().addSubcommand(new DemoCommand());
    System.exit(qmoe.execute(arguments));
  }
}
