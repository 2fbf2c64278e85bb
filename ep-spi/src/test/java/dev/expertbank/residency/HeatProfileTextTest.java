package dev.expertbank.residency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.spi.EpException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class HeatProfileTextTest {
  private static final ResidencyLayout LAYOUT =
      new ResidencyLayout(
          List.of(LayerLayout.pageable(3, 2, 90, 100), LayerLayout.pageable(2, 1, 50, 64)));
  private static final HeatProfile PROFILE =
      new HeatProfile(LAYOUT, new double[] {1, 0.25, 1.0E-4, 0, 1 / 3.0});
  private static final String TEXT = HeatProfileText.format(PROFILE);

  @TempDir private Path directory;

  private static void assertRefused(String text, String code, String detail) {
    assertThatThrownBy(() -> HeatProfileText.parse(text, LAYOUT))
        .as(text)
        .isInstanceOfSatisfying(EpException.class, e -> assertThat(e.code()).isEqualTo(code))
        .hasMessageContaining(detail);
  }

  @Test
  void theTextIsTheSameForTheSameProfile() {
    assertThat(TEXT)
        .isEqualTo(
            """
            expertbank-profile 1
            model %s
            layer 0 1.0 0.25 1.0E-4
            layer 1 0.0 0.3333333333333333
            end
            """
                .formatted(HeatProfile.identity(LAYOUT)));
  }

  @Test
  void aProfileComesBackAsItWas() {
    assertThat(HeatProfileText.parse(TEXT, LAYOUT)).isEqualTo(PROFILE);
  }

  @Test
  void everyTruncationIsRefused() {
    for (int length = 0; length < TEXT.length(); length++) {
      String cut = TEXT.substring(0, length);
      assertThatThrownBy(() -> HeatProfileText.parse(cut, LAYOUT))
          .as(cut)
          .isInstanceOf(EpException.class);
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "layer 0 1.0 0.25 1.0E-4 | layer 0 1.0 0.25        | 2 values for 3 experts",
        "layer 0 1.0 0.25 1.0E-4 | layer 0 1.0 0.25 0.5 0.5 | 4 values for 3 experts",
        "layer 1 0.0             | layer 0 0.0             | does not start with",
        "layer 1 0.0             | layer 2 0.0             | does not start with",
        "0.25                    | NaN                     | 'NaN'",
        "0.25                    | Infinity                | 'Infinity'",
        "0.25                    | -0.25                   | '-0.25'",
        "0.25                    | -0.0                    | '-0.0'",
        "0.25                    | 1.0000000000000002      | '1.0000000000000002'",
        "0.25                    | 1.0E400                 | '1.0E400'",
        "0.25                    | 0.250                   | '0.250'",
        "0.25                    | 0.25d                   | '0.25d'",
        "0.25                    | ten                     | 'ten'",
      })
  void aDamagedLineIsRefusedWithItsReason(String from, String to, String detail) {
    assertThat(TEXT).contains(from);
    assertRefused(TEXT.replace(from, to), "profile.format", detail.replace('\'', '"'));
  }

  @Test
  void layersThatAreMissingOrTooManyAreRefused() {
    assertRefused(TEXT.replace("layer 1 0.0 0.3333333333333333\n", ""), "profile.format", "line 4");
    assertRefused(TEXT.replace("end", "layer 2 0.0\nend"), "profile.format", "not 'end'");
    assertRefused(TEXT + TEXT.substring(0, 10), "profile.format", "after the end");
    assertRefused(TEXT.replace("\n", "\r\n"), "profile.version", "\\r");
  }

  @Test
  void aFutureVersionIsRefused() {
    assertRefused(TEXT.replace("profile 1", "profile 2"), "profile.version", "2");
  }

  @Test
  void aProfileOfAnotherModelIsRefused() {
    ResidencyLayout other =
        new ResidencyLayout(
            List.of(LayerLayout.pageable(3, 1, 90, 100), LayerLayout.pageable(2, 1, 50, 64)));
    assertThatThrownBy(() -> HeatProfileText.parse(TEXT, other))
        .isInstanceOfSatisfying(
            EpException.class, e -> assertThat(e.code()).isEqualTo("profile.model"))
        .hasMessageContaining(HeatProfile.identity(LAYOUT))
        .hasMessageContaining(HeatProfile.identity(other));
    assertRefused(TEXT.replace("model ", "model 0"), "profile.format", "64 hexadecimal");
  }

  @Test
  void aProfileFitsTheSameModelOnADeviceWithOtherSlots() {
    ResidencyLayout other =
        new ResidencyLayout(
            List.of(LayerLayout.pageable(3, 2, 90, 128), LayerLayout.pageable(2, 1, 50, 50)));
    assertThat(HeatProfileText.parse(TEXT, other)).isEqualTo(PROFILE);
  }

  @Test
  void theLongestValuesFit() {
    double[] values = new double[5];
    Arrays.fill(values, 1.2345678901234568E-300);
    HeatProfile widest = new HeatProfile(LAYOUT, values);
    assertThat(HeatProfileText.parse(HeatProfileText.format(widest), LAYOUT)).isEqualTo(widest);
  }

  @Test
  void aTextThatIsLongerThanAnyProfileIsRefusedUnread() {
    assertRefused(" ".repeat(1 << 20), "profile.format", "longer than any profile");
  }

  @Test
  void aSavedProfileIsLoaded() throws IOException {
    Path file = directory.resolve("heat.profile");
    Files.writeString(file, "old");
    HeatProfileText.save(PROFILE, file);
    assertThat(Files.readString(file)).isEqualTo(TEXT);
    assertThat(HeatProfileText.load(file, LAYOUT)).isEqualTo(PROFILE);
    try (var files = Files.list(directory)) {
      assertThat(files).containsExactly(file);
    }
  }

  @Test
  void aFileThatIsRefusedIsNamed() throws IOException {
    Path file = directory.resolve("heat.profile");
    Files.write(file, "expertbank-profile é\n".getBytes(StandardCharsets.UTF_8));
    assertThatThrownBy(() -> HeatProfileText.load(file, LAYOUT))
        .isInstanceOfSatisfying(
            EpException.class, e -> assertThat(e.code()).isEqualTo("profile.version"))
        .hasMessageContaining("heat.profile");
    assertThatThrownBy(() -> HeatProfileText.load(directory, LAYOUT))
        .isInstanceOfSatisfying(
            EpException.class, e -> assertThat(e.code()).isEqualTo("profile.read"));
    assertThatThrownBy(() -> HeatProfileText.load(directory.resolve("none"), LAYOUT))
        .isInstanceOfSatisfying(
            EpException.class, e -> assertThat(e.code()).isEqualTo("profile.read"));
    assertThatThrownBy(() -> HeatProfileText.save(PROFILE, directory.resolve("none/heat")))
        .isInstanceOfSatisfying(
            EpException.class, e -> assertThat(e.code()).isEqualTo("profile.write"));
  }

  @Test
  void valuesThatAreNoPartAreRefused() {
    for (double bad : new double[] {-0.1, -0.0, 1.1, Double.NaN}) {
      assertThatThrownBy(() -> new HeatProfile(LAYOUT, new double[] {0, 0, 0, 0, bad}))
          .isInstanceOf(IllegalArgumentException.class);
    }
    assertThatThrownBy(() -> new HeatProfile(LAYOUT, new double[4]))
        .isInstanceOf(IllegalArgumentException.class);
  }
}
