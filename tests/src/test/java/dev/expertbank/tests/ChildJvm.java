package dev.expertbank.tests;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Runs a main class of the tests in a JVM of its own, where it may die without taking us along. */
public final class ChildJvm {
  private ChildJvm() {}

  /**
   * How a child ended.
   *
   * @param output standard output and error together
   */
  public record Ended(int exitCode, String output) {}

  public static Ended run(Class<?> main, List<String> jvmArguments, String... arguments)
      throws IOException, InterruptedException {
    return run(Map.of(), main, jvmArguments, arguments);
  }

  /** The same, with variables of the environment beside those that we have. */
  public static Ended run(
      Map<String, String> environment,
      Class<?> main,
      List<String> jvmArguments,
      String... arguments)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add(ProcessHandle.current().info().command().orElse("java"));
    command.add("--enable-native-access=ALL-UNNAMED");
    command.addAll(jvmArguments);
    command.add("-cp");
    command.add(System.getProperty("java.class.path"));
    command.add(main.getName());
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().putAll(environment);
    Process process = builder.start();
    process.getOutputStream().close();
    Thread killer =
        Thread.ofVirtual()
            .start(
                () -> {
                  try {
                    if (!process.waitFor(2, TimeUnit.MINUTES)) {
                      process.destroyForcibly();
                    }
                  } catch (InterruptedException e) {
                    process.destroyForcibly();
                  }
                });
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    int exitCode = process.waitFor();
    killer.interrupt();
    return new Ended(exitCode, output);
  }
}
