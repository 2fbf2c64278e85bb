package dev.expertbank.model;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.spi.qmoe.RoutingSemantics;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Models many times larger than the heap, in a VM of their own. */
class StreamingTest {
  private static final long HEAP_BYTES = 24L << 20;

  @TempDir private Path directory;

  /** Writes and reads a model of the size given. */
  static final class Child {
    private Child() {}

    public static void main(String[] arguments) {
      SyntheticModel model = model();
      Path file = Path.of(arguments[0]);
      SyntheticModelWriter.write(model, file, false, SyntheticModelWriter.Progress.NONE);
      OnnxModel read = OnnxModelReader.read(file);
      boolean complete =
          QMoeNode.of(read, RoutingSemantics.ORT_CPU).stream()
              .allMatch(node -> node.catalog().orElseThrow().isComplete());
      System.out.println(complete + " " + read.externalBytes());
    }
  }

  private static SyntheticModel model() {
    return SyntheticModel.builder().geometry(1024, 1024, 16, 2).layers(8).build();
  }

  @Test
  void aModelManyTimesLargerThanTheHeapIsWrittenAndRead() throws Exception {
    long bytes = SyntheticModelWriter.dataBytes(model());
    assertThat(bytes).isGreaterThan(9 * HEAP_BYTES);

    Path file = directory.resolve("m.onnx");
    Path output = directory.resolve("output");
    Process child =
        new ProcessBuilder(
                List.of(
                    Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                    "-Xmx" + HEAP_BYTES,
                    "-XX:MaxDirectMemorySize=8m",
                    "-cp",
                    System.getProperty("java.class.path"),
                    Child.class.getName(),
                    file.toString()))
            .redirectErrorStream(true)
            .redirectOutput(output.toFile())
            .start();

    assertThat(child.waitFor()).as(() -> read(output)).isZero();
    assertThat(read(output)).contains("true ");
    assertThat(Files.size(directory.resolve("m.onnx.data"))).isEqualTo(bytes);
  }

  private static String read(Path file) {
    try {
      return Files.readString(file, StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
