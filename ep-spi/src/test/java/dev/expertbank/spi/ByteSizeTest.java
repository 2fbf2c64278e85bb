package dev.expertbank.spi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ByteSizeTest {
  @ParameterizedTest
  @CsvSource({
    "0, 0",
    "1048576, 1048576",
    "3KiB, 3072",
    "512MiB, 536870912",
    "8GiB, 8589934592",
    "2TiB, 2199023255552",
    "8388607TiB, 9223370937343148032"
  })
  void unitsArePowersOf1024(String text, long bytes) {
    assertThat(ByteSize.parse(text)).isEqualTo(bytes);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"", "-1", "1.5GiB", "8GB", "8gib", "8 GiB", "GiB", "0x10", "\u0661", "1e9"})
  void whatIsNoNumberOfBytesIsRefused(String text) {
    assertThatThrownBy(() -> ByteSize.parse(text))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("8GiB");
  }

  @ParameterizedTest
  @ValueSource(strings = {"8388608TiB", "999999999999999999GiB"})
  void whatNoLongHoldsIsRefused(String text) {
    assertThatThrownBy(() -> ByteSize.parse(text))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("8 EiB");
  }
}
