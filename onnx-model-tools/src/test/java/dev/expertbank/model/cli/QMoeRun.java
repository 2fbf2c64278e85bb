package dev.expertbank.model.cli;

import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Objects;
import picocli.CommandLine;

/** What one run of the command line printed and returned. */
record QMoeRun(int exitCode, String out, String err) {
  static QMoeRun run(String... arguments) {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    CommandLine qmoe = QMoe.commandLine().setOut(new PrintWriter(out)).setErr(new PrintWriter(err));
    int exitCode = qmoe.execute(arguments);
    return new QMoeRun(exitCode, out.toString(), err.toString());
  }

  /** The expected output of that name. */
  static String golden(String name) throws IOException {
    try (InputStream in = QMoeRun.class.getResourceAsStream(name)) {
      return new String(Objects.requireNonNull(in, name).readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
