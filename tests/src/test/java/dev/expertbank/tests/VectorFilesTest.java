package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class VectorFilesTest {
  @Test
  void everyVectorFileIsListedInTheIndex() throws IOException, URISyntaxException {
    Path directory =
        Path.of(
            Objects.requireNonNull(
                    VectorFilesTest.class.getResource("/" + VectorCase.DIRECTORY), "resources")
                .toURI());
    try (Stream<Path> files = Files.list(directory)) {
      assertThat(files.map(f -> f.getFileName().toString()).filter(f -> !f.startsWith("_")))
          .containsExactlyInAnyOrderElementsOf(VectorCase.files());
    }
  }

  @Test
  void everyCaseIsReadAndSomeHaveEachExpectation() {
    assertThat(VectorCase.all()).hasSize(112);
    assertThat(VectorCase.where(VectorCase.Expect.SUCCESS)).hasSize(98);
    assertThat(VectorCase.where(VectorCase.Expect.FAILURE)).hasSize(12);
    assertThat(VectorCase.where(VectorCase.Expect.ORT_DEVIATES_FROM_SPEC)).hasSize(2);
  }
}
