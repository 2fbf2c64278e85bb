package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThat;

import ai.onnxruntime.OrtException;
import dev.expertbank.spi.Claim;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Random nodes in sessions with the QMoE provider on the test device. */
class ProviderGridTest {
  private static final int CASES = 300;

  static Stream<RandomCase> cases() {
    return LongStream.range(0, CASES).mapToObj(RandomCase::of);
  }

  @ParameterizedTest
  @MethodSource("cases")
  void matchesTheReference(RandomCase random, @TempDir Path directory) throws OrtException {
    MoeNode node = random.node();
    Sessions.ProviderRun run =
        Sessions.runWithProvider(
            node,
            random.routing(),
            Map.of(),
            random.seed() % 2 == 0
                ? o -> Sessions.ENVIRONMENT.createSession(OnnxModels.inline(node), o)
                : external(node, directory, random.oddSlot()));
    assertThat(run.claim()).isInstanceOf(Claim.Claimed.class);
    Outputs.assertNearReferenceOnDevice(run.output(), node, random.routing());
  }

  private static Sessions.Opener external(MoeNode node, Path directory, int oddSlot) {
    Path model = OnnxModels.external(node, directory, oddSlot);
    return options -> Sessions.ENVIRONMENT.createSession(model.toString(), options);
  }
}
