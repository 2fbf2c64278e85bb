package dev.expertbank.tests.host;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.tests.ChildJvm;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Exceptions from every SPI method: the VM lives, and what failed is said where it can be. */
class HostFailureTest {
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          CREATE      | no session:                      | thrown on purpose in CREATE
          CLAIM       | no session:                      | node 'n0' (ai.onnx::Neg) [claim.failed] the claim rule threw java.lang.IllegalStateException: thrown on purpose in CLAIM
          CLAIM_ERROR | no session:                      | the claim rule threw java.lang.StackOverflowError: thrown on purpose in CLAIM_ERROR
          COMPILE     | no session:                      | thrown on purpose in COMPILE
          SESSION_CREATED | no session:                  | thrown on purpose in SESSION_CREATED
          COMPUTE     | run failed:                      | thrown on purpose in COMPUTE
          BOUNDARY    | ran [-0.0, -2.0, -0.0]           | outcome Optional[Failed[reason=java.lang.IllegalStateException: thrown on purpose in BOUNDARY]]
          CLOSE_NODE  | ran [-0.0, -2.0, -0.0]           | thrown on purpose in CLOSE_NODE
          CLOSE       | ran [-0.0, -2.0, -0.0]           | thrown on purpose in CLOSE
          """)
  void aThrowingProviderMethodIsReported(String where, String outcome, String text)
      throws Exception {
    ChildJvm.Ended ended = scenario("throw-in", where);
    assertThat(ended.output()).contains(outcome, text, "open sessions 0", "alive");
    assertThat(ended.exitCode()).isZero();
  }

  @ParameterizedTest
  @CsvSource({"CLAIM", "CLAIM_ERROR"})
  void aThrowingClaimLeavesTheNodeToOnnxRuntimeWhenFallbackIsAllowed(String where)
      throws Exception {
    ChildJvm.Ended ended = scenario("throw-in-allowed", where);
    assertThat(ended.output()).contains("ran [-0.0, -2.0, -0.0]", "alive");
    assertThat(ended.exitCode()).isZero();
  }

  @Test
  void theProcessExitsCleanlyWithAnOpenSession() throws Exception {
    ChildJvm.Ended ended = scenario("exit-with-open-session");
    assertThat(ended.output()).contains("ran [0.0, 1.0]");
    assertThat(ended.exitCode()).isZero();
  }

  @Test
  void theProcessExitsCleanlyWhileAnotherThreadRuns() throws Exception {
    ChildJvm.Ended ended = scenario("exit-while-running");
    assertThat(ended.output()).contains("exiting");
    assertThat(ended.exitCode()).isZero();
  }

  /** As in a container without a locale: nothing of the model is the provider's, so all is well. */
  @Test
  void aModelWhoseFolderJavaCannotNameOpens(@TempDir Path folder) throws Exception {
    ChildJvm.Ended ended =
        ChildJvm.run(
            Map.of("LC_ALL", "C"), HostScenarios.class, List.of(), "unnamable", folder.toString());
    assertThat(ended.output()).contains("unnamable", "ran [-1.0, 2.0]");
    assertThat(ended.exitCode()).isZero();
  }

  private static ChildJvm.Ended scenario(String... arguments) throws Exception {
    return ChildJvm.run(HostScenarios.class, List.of(), arguments);
  }
}
