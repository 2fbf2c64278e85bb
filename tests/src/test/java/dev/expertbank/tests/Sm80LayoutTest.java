package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.model.Sm80Encoder;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Proves the closed form of the SM80 layout, and the encoder, on matrices that are given in both
 * layouts.
 */
class Sm80LayoutTest {
  static Stream<MatrixVector> matrices() {
    return MatrixVector.all();
  }

  @ParameterizedTest
  @MethodSource("matrices")
  void mapsBothLayoutsExactly(MatrixVector matrix) {
    var layout = new Sm80Layout(matrix.bits(), matrix.outputs(), matrix.inputs());

    assertThat(layout.toPlain(matrix.swizzledBytes())).isEqualTo(matrix.plainBytes());
    assertThat(Sm80Encoder.encode(matrix.bits(), matrix.inputs(), matrix.plainBytes()))
        .isEqualTo(matrix.swizzledBytes());
    assertThat(signedValues(matrix.plainBytes(), matrix.bits())).isEqualTo(matrix.values());
  }

  @ParameterizedTest
  @MethodSource("matrices")
  void aNodeOfAMatrixHasTheSameWeightsInBothLayouts(MatrixVector matrix) {
    double[] row = new double[matrix.inputs()];
    MoeNode plain = matrix.node(false, row);
    MoeNode decoded = Sm80Layout.plain(matrix.node(true, row));

    assertThat(decoded.attributes()).isEqualTo(plain.attributes());
    for (int slot : new int[] {2, 5}) {
      assertThat(decoded.required(slot).shape()).isEqualTo(plain.required(slot).shape());
      assertThat(decoded.required(slot).bytes()).isEqualTo(plain.required(slot).bytes());
    }
  }

  /** The plain case was made from the upstream one; both describe the same weights. */
  @Test
  void mapsTheUpstreamCaseToItsPlainRestatement() {
    MoeNode swizzled = node("QMoETest_Mixtral_Int4__cuda");
    MoeNode plain = node("derived_QMoETest_Mixtral_Int4_plain");

    for (int slot : new int[] {2, 5, 8}) {
      byte[] bytes = plain.required(slot).bytes();
      assertThat(Sm80Layout.plain(swizzled).required(slot).bytes())
          .as("input %d", slot)
          .isEqualTo(bytes);
      assertThat(Sm80Encoder.encode(4, 64, bytes)).isEqualTo(swizzled.required(slot).bytes());
    }
  }

  static Stream<RandomCase> randomCases() {
    return Sm80SessionTest.randomCases();
  }

  @ParameterizedTest
  @MethodSource("randomCases")
  void whatIsDecodedOfARandomNodeIsEncodedAgain(RandomCase random) {
    MoeNode plain = Sm80Layout.plain(random.node());
    int bits = (int) plain.integer("expert_weight_bits", 4);

    for (int slot : new int[] {2, 5, 8}) {
      if (plain.input(slot).isPresent()) {
        TensorData weights = plain.required(slot);
        assertThat(weights.dimension(1)).isEqualTo(plain.required(slot + 1).dimension(1));
        assertThat(Sm80Encoder.encode(bits, weights.dimension(2) * 8 / bits, weights.bytes()))
            .isEqualTo(random.node().required(slot).bytes());
      }
    }
  }

  /** Three matrices in one go, higher than wide and wider than high. */
  @ParameterizedTest
  @CsvSource({"4,4,64", "4,12,320", "4,64,192", "8,2,64", "8,10,320", "8,64,192"})
  void whatIsEncodedIsDecoded(int bits, int outputs, int inputs) {
    byte[] plain = new byte[3 * outputs * inputs * bits / 8];
    new Random(outputs).nextBytes(plain);

    byte[] swizzled = Sm80Encoder.encode(bits, inputs, plain);

    assertThat(new Sm80Layout(bits, 3 * outputs, inputs).toPlain(swizzled)).isEqualTo(plain);
  }

  @ParameterizedTest
  @CsvSource({"2,64,128", "4,96,384", "4,64,96", "8,64,192", "4,0,0"})
  void whatHasNoSuchLayoutIsRefused(int bits, int inputs, int bytes) {
    assertThatThrownBy(() -> Sm80Encoder.encode(bits, inputs, new byte[bytes]))
        .isInstanceOf(IllegalArgumentException.class);
  }

  private static MoeNode node(String name) {
    return VectorCase.all().stream()
        .filter(c -> c.name().equals(name))
        .findFirst()
        .orElseThrow()
        .node();
  }

  private static List<Double> signedValues(byte[] plain, int bits) {
    int valuesPerByte = 8 / bits;
    List<Double> values = new ArrayList<>();
    for (int i = 0; i < plain.length * valuesPerByte; i++) {
      int code = (plain[i / valuesPerByte] >> (i % valuesPerByte * bits)) & ((1 << bits) - 1);
      values.add((double) (code - (1 << (bits - 1))));
    }
    return values;
  }
}
