package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThat;

import ai.onnxruntime.OrtException;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Experts that start at an odd offset of the file give the bits that they give elsewhere. */
class MisalignedWeightsTest {
  private static final int CASES = 60;

  static Stream<RandomCase> cases() {
    return LongStream.range(0, CASES).mapToObj(RandomCase::of);
  }

  @ParameterizedTest
  @MethodSource("cases")
  void bitsDoNotDependOnAlignment(RandomCase random, @TempDir Path directory) throws OrtException {
    MoeNode node = random.node();
    byte[] inline = OnnxModels.inline(node);
    Path external = OnnxModels.external(node, directory, random.oddSlot());
    assertThat(run(random, o -> Sessions.ENVIRONMENT.createSession(external.toString(), o)))
        .isEqualTo(run(random, o -> Sessions.ENVIRONMENT.createSession(inline, o)));
  }

  private static byte[] run(RandomCase random, Sessions.Opener opener) throws OrtException {
    return Sessions.runWithProvider(random.node(), random.routing(), Map.of(), opener)
        .output()
        .bytes();
  }
}
