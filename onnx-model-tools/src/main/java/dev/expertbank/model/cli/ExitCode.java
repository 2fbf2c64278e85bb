package dev.expertbank.model.cli;

/** Exit codes of {@code qmoe}; {@code --help} lists them. */
public final class ExitCode {
  public static final int OK = 0;
  public static final int FINDINGS = 1;
  public static final int USAGE = 2;
  public static final int FILE = 3;
  public static final int UNSUPPORTED = 4;
  public static final int INTERNAL = 70;

  private ExitCode() {}
}
