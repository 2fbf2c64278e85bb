package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Proves the closed form of the SM80 layout on matrices that are given in both layouts. */
class Sm80LayoutTest {
  static Stream<String> layoutFiles() {
    return VectorCase.files().stream().filter(f -> f.startsWith("derived_layout_"));
  }

  @ParameterizedTest
  @MethodSource("layoutFiles")
  void mapsBothLayoutsExactly(String file) {
    Map<?, ?> json = (Map<?, ?>) VectorCase.json(file);
    byte[] plain = bytes(json, "plain_bytes");
    byte[] swizzled = bytes(json, "sm80_bytes");
    int bits = integer(json, "bits");
    var layout = new Sm80Layout(bits, integer(json, "N"), integer(json, "K"));

    assertThat(layout.toPlain(swizzled)).isEqualTo(plain);
    assertThat(layout.fromPlain(plain)).isEqualTo(swizzled);
    assertThat(signedValues(plain, bits))
        .isEqualTo(VectorCase.numbers(VectorCase.field(json, "signed_values_row_major_NK")));
  }

  /** The plain case was made from the upstream one; both describe the same weights. */
  @Test
  void mapsTheUpstreamCaseToItsPlainRestatement() {
    MoeNode swizzled = node("QMoETest_Mixtral_Int4__cuda");
    MoeNode plain = node("derived_QMoETest_Mixtral_Int4_plain");

    for (int slot : new int[] {2, 5, 8}) {
      byte[] bytes = swizzled.required(slot).bytes();
      int expertBytes = bytes.length / swizzled.required(slot).dimension(0);
      int inputs = 64;
      var layout = new Sm80Layout(4, 2 * expertBytes / inputs, inputs);
      for (int offset = 0; offset < bytes.length; offset += expertBytes) {
        assertThat(layout.toPlain(Arrays.copyOfRange(bytes, offset, offset + expertBytes)))
            .as("input %d from byte %d", slot, offset)
            .isEqualTo(
                Arrays.copyOfRange(plain.required(slot).bytes(), offset, offset + expertBytes));
      }
    }
  }

  private static MoeNode node(String name) {
    return VectorCase.all().stream()
        .filter(c -> c.name().equals(name))
        .findFirst()
        .orElseThrow()
        .node();
  }

  private static double[] signedValues(byte[] plain, int bits) {
    int valuesPerByte = 8 / bits;
    double[] values = new double[plain.length * valuesPerByte];
    for (int i = 0; i < values.length; i++) {
      int code = (plain[i / valuesPerByte] >> (i % valuesPerByte * bits)) & ((1 << bits) - 1);
      values[i] = code - (1 << (bits - 1));
    }
    return values;
  }

  private static int integer(Map<?, ?> json, String field) {
    return ((Number) VectorCase.field(json, field)).intValue();
  }

  private static byte[] bytes(Map<?, ?> json, String field) {
    double[] numbers = VectorCase.numbers(VectorCase.field(json, field));
    byte[] bytes = new byte[numbers.length];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) (int) numbers[i];
    }
    return bytes;
  }
}
