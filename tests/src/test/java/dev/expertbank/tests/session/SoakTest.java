package dev.expertbank.tests.session;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/** Long use leaves memory flat; read from /proc. */
@EnabledOnOs(OS.LINUX)
class SoakTest {
  private static final int RUNS = 10_000;

  /** What the JVM's own compilers and collectors move within the measured part. */
  private static final long SLACK_KIB = 24 << 10;

  @TempDir Path directory;

  @Test
  void tenThousandRunsKeepMemoryFlat() throws Exception {
    Path model = SmallQMoe.write(directory, 2);
    float[][] decode = SmallQMoe.tokens(1, 1);
    float[][] prefill = SmallQMoe.tokens(40, 2);
    try (var open = SmallQMoe.open(model, Map.of())) {
      for (int i = 0; i < RUNS / 2; i++) {
        SmallQMoe.run(open.session(), i % 8 == 0 ? prefill : decode);
      }
      long before = anonymousKib();
      for (int i = 0; i < RUNS; i++) {
        SmallQMoe.run(open.session(), i % 8 == 0 ? prefill : decode);
      }
      assertThat(anonymousKib() - before).isLessThan(SLACK_KIB);
      assertThat(open.registration().sessions().getFirst().boundaries()).isEqualTo(RUNS + RUNS / 2);
    }
  }

  @Test
  void aThousandSessionsLeaveNothingBehind() throws Exception {
    Path model = SmallQMoe.write(directory, 1);
    for (int i = 0; i < 500; i++) {
      openAndClose(model);
    }
    long before = anonymousKib();
    long mappings = mappings();
    for (int i = 0; i < 500; i++) {
      openAndClose(model);
    }
    assertThat(mappings() - mappings).isLessThan(50);
    assertThat(anonymousKib() - before).isLessThan(SLACK_KIB);
  }

  private static void openAndClose(Path model) throws Exception {
    try (var open = SmallQMoe.open(model, Map.of())) {
      SmallQMoe.run(open.session(), SmallQMoe.tokens(1, 1));
    }
  }

  /** Memory of the process that is not backed by files, after a collection. */
  private static long anonymousKib() throws Exception {
    System.gc();
    return Files.readAllLines(Path.of("/proc/self/status")).stream()
        .filter(line -> line.startsWith("RssAnon:"))
        .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
        .findFirst()
        .orElseThrow();
  }

  private static long mappings() throws Exception {
    return Files.readAllLines(Path.of("/proc/self/maps")).stream()
        .filter(line -> line.contains("small.onnx.data"))
        .count();
  }
}
