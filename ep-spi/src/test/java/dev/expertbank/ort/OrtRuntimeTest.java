package dev.expertbank.ort;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class OrtRuntimeTest {
  @Test
  void acceptsTheVersionsThatHaveEveryFunction() {
    assertThat(OrtRuntime.checkedMinor("1.28.0")).isEqualTo(28);
    assertThat(OrtRuntime.checkedMinor("1.29.0")).isEqualTo(29);
    assertThat(OrtRuntime.checkedMinor("1.41.2-dev")).isEqualTo(41);
  }

  @ParameterizedTest
  @ValueSource(strings = {"1.27.1", "1.9.0", "2.0.0", "", "1.x.0"})
  void refusesOthersAndNamesTheArtifactToUse(String version) {
    assertThatThrownBy(() -> OrtRuntime.checkedMinor(version))
        .hasMessageContaining("'" + version + "'")
        .hasMessageContaining("com.microsoft.onnxruntime:onnxruntime:1.29.0");
  }
}
