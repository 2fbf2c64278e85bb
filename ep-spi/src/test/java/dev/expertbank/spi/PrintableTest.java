package dev.expertbank.spi;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class PrintableTest {
  @ParameterizedTest
  @ValueSource(strings = {"", "model.onnx.data", "層.0/größe", "a b", "🂡"})
  void plainTextStaysAsItIs(String text) {
    assertThat(Printable.escape(text, 100)).isEqualTo(text);
  }

  @ParameterizedTest
  @CsvSource({
    "27,\\u{1b}", // escape: starts a terminal sequence
    "0,\\u{0}",
    "10,\\n",
    "13,\\r",
    "9,\\t",
    "92,\\\\",
    "155,\\u{9b}", // the one-character form of the same
    "8238,\\u{202e}", // right-to-left override
    "8203,\\u{200b}", // zero width space
    "8232,\\u{2028}", // line separator
    "160,\\u{a0}", // no-break space
    "55296,\\u{d800}", // unpaired surrogate
    "57344,\\u{e000}", // private use
  })
  void whatHasNoGlyphIsEscaped(int character, String escaped) {
    assertThat(Printable.escape("a" + Character.toString(character) + "b", 100))
        .isEqualTo("a" + escaped + "b");
  }

  @Test
  void longTextIsCutAndSaysSo() {
    assertThat(Printable.escape("x".repeat(1_000_000), 5)).isEqualTo("xxxxx… (999995 more)");
    assertThat(Printable.escape("xxxxx", 5)).isEqualTo("xxxxx");
    assertThat(Printable.quote("y".repeat(500))).hasSizeLessThan(150).startsWith("'y");
  }

  @Test
  void aSurrogatePairIsNeverCut() {
    assertThat(Printable.escape("🂡🂡🂡", 1)).isEqualTo("🂡… (4 more)");
  }
}
