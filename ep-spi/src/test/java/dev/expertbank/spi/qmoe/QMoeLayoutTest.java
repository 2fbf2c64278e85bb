package dev.expertbank.spi.qmoe;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.qmoe.QMoeReading.Supported;
import dev.expertbank.spi.qmoe.QMoeReading.Unsupported;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Which layout a node's weights are taken to have, and what that demands of them. */
class QMoeLayoutTest {
  /** E 4, H 64, I 128, int4, blocks of 32. */
  private static QMoeNodes.Geometry tiled() {
    return new QMoeNodes.Geometry().inter(128);
  }

  /** The attribute, or its absence when empty, under either semantics. */
  @ParameterizedTest
  @CsvSource({
    ", ORT_CPU, PLAIN",
    ", ORT_CUDA, SM80",
    "-1, ORT_CPU, PLAIN",
    "-1, ORT_CUDA, SM80",
    "0, ORT_CPU, PLAIN",
    "0, ORT_CUDA, PLAIN",
    "1, ORT_CPU, SM80",
    "1, ORT_CUDA, SM80"
  })
  void theAttributeAndTheSemanticsTellTheLayout(
      Long prepacked, RoutingSemantics routing, WeightLayout layout) {
    QMoeNodes nodes = tiled().build();
    if (prepacked != null) {
      nodes.integer("weights_prepacked", prepacked);
    }

    assertThat(supported(nodes, routing).spec().layout()).isEqualTo(layout);
  }

  @ParameterizedTest
  @CsvSource({
    "64, 128, 4, false",
    "64, 128, 8, true",
    "128, 64, 4, true",
    "64, 64, 4, false", // both shapes are one
    "64, 64, 8, true" // told by fc1, which has 2·I rows
  })
  void sm80WeightsHaveTheSameBytesInEitherShape(int hidden, int inter, int bits, boolean fused) {
    QMoeSpec[] specs = new QMoeSpec[2];
    for (int i = 0; i < 2; i++) {
      QMoeNodes.Geometry geometry = new QMoeNodes.Geometry().hidden(hidden).inter(inter).bits(bits);
      QMoeNodes nodes =
          (fused ? geometry.fusedSwiglu() : geometry)
              .build()
              .with(QMoeInput.FC1_ZERO_POINTS, QMoeInput.FC2_ZERO_POINTS)
              .integer("weights_prepacked", 1);
      specs[i] = supported(i == 0 ? nodes : nodes.transposed(), RoutingSemantics.ORT_CUDA).spec();
    }

    for (QMoeSpec spec : specs) {
      assertThat(spec.hidden()).isEqualTo(hidden);
      assertThat(spec.inter()).isEqualTo(inter);
      assertThat(spec.bytesPerExpert(QMoeInput.FC1_WEIGHTS))
          .isEqualTo((fused ? 2L : 1) * inter * hidden * bits / 8);
      assertThat(spec.bytesPerExpert(QMoeInput.FC2_WEIGHTS)).isEqualTo(hidden * inter * bits / 8);
    }
    assertThat(specs[0].bytesPerExpert()).isEqualTo(specs[1].bytesPerExpert());
  }

  /** ONNX Runtime's CUDA provider has no fc3; the layout of one is as well defined. */
  @Test
  void sm80WeightsMayHaveFc3() {
    QMoeNodes nodes =
        tiled()
            .build()
            .with(QMoeInput.FC3_WEIGHTS, QMoeInput.FC3_SCALES)
            .integer("weights_prepacked", 1);

    QMoeSpec spec = supported(nodes.transposed(), RoutingSemantics.ORT_CPU).spec();

    assertThat(spec.fc3()).isTrue();
    assertThat(spec.bytesPerExpert(QMoeInput.FC3_WEIGHTS)).isEqualTo(128 * 64 / 2);
  }

  @Test
  void sizesOfTransposedWeightsAreFoundWithoutAKnownHiddenSize() {
    QMoeNodes nodes =
        tiled()
            .build()
            .transposed()
            .integer("weights_prepacked", 1)
            .unknownShape(QMoeInput.INPUT)
            .output(ElementType.FLOAT, Optional.empty());

    QMoeSpec spec = supported(nodes, RoutingSemantics.ORT_CUDA).spec();

    assertThat(spec.hidden()).isEqualTo(64);
    assertThat(spec.inter()).isEqualTo(128);
  }

  @Test
  void weightsOfAllLayersHaveTheSameShape() {
    for (QMoeInput mixed : List.of(QMoeInput.FC1_WEIGHTS, QMoeInput.FC3_WEIGHTS)) {
      QMoeNodes nodes =
          tiled()
              .build()
              .with(QMoeInput.FC3_WEIGHTS, QMoeInput.FC3_SCALES)
              .integer("weights_prepacked", 1)
              .transposed()
              .with(mixed);

      Unsupported refusal = refusal(nodes, RoutingSemantics.ORT_CUDA);

      assertThat(refusal.code()).isEqualTo("qmoe.shape");
      assertThat(refusal.reason())
          .contains("'moe." + mixed.schemaName() + "' has shape [4,128,32]")
          .contains("[4,64,64]")
          .contains("transposed");
    }
  }

  @ParameterizedTest
  @CsvSource({"64, 96", "96, 64", "544, 64"})
  void sm80SizesAreMultiplesOf64(int hidden, int inter) {
    for (QMoeNodes nodes :
        List.of(
            new QMoeNodes.Geometry().hidden(hidden).inter(inter).build(),
            new QMoeNodes.Geometry()
                .hidden(hidden)
                .inter(inter)
                .build()
                .integer("weights_prepacked", 1)
                .transposed())) {
      Unsupported refusal = refusal(nodes, RoutingSemantics.ORT_CUDA);

      assertThat(refusal.code()).isEqualTo("qmoe.layout");
      assertThat(refusal.reason())
          .contains("weights_prepacked is")
          .contains("multiples of 64, but they are " + hidden + " and " + inter)
          .contains("weights_prepacked=0");
    }
  }

  @Test
  void sm80WeightsHave4Or8Bits() {
    QMoeNodes nodes = tiled().bits(2).build();

    assertThat(refusal(nodes, RoutingSemantics.ORT_CUDA))
        .satisfies(
            refusal -> {
              assertThat(refusal.code()).isEqualTo("qmoe.layout");
              assertThat(refusal.reason())
                  .contains("absent or -1")
                  .contains("expert_weight_bits is 2");
            });
    assertThat(refusal(nodes.integer("weights_prepacked", 1), RoutingSemantics.ORT_CPU).reason())
        .contains("weights_prepacked is 1")
        .contains("expert_weight_bits is 2");
    assertThat(supported(nodes.integer("weights_prepacked", 0), RoutingSemantics.ORT_CUDA))
        .isNotNull();
  }

  @ParameterizedTest
  @CsvSource({
    "64,96,false", // H differs from I
    "64,96,true",
    "64,64,true" // H = I: told by fc1, which would have 2·I rows
  })
  void transposedPlainWeights(long hidden, long inter, boolean fused) {
    QMoeNodes.Geometry geometry = new QMoeNodes.Geometry().hidden(hidden).inter(inter);
    QMoeNodes nodes = (fused ? geometry.fusedSwiglu() : geometry).build().transposed();

    Unsupported unstated = refusal(nodes, RoutingSemantics.ORT_CPU);
    Unsupported stated = refusal(nodes.integer("weights_prepacked", 0), RoutingSemantics.ORT_CUDA);

    assertThat(unstated.code()).isEqualTo("qmoe.legacy-layout");
    assertThat(unstated.reason())
        .contains("choose option routing.semantics=ort-cuda (on a CUDA device)")
        .contains("re-export it with weights_prepacked=0");
    assertThat(stated.code()).isEqualTo("qmoe.legacy-layout");
    assertThat(stated.reason())
        .doesNotContain("routing.semantics")
        .contains("re-export the model with weights_prepacked=0");
  }

  @Test
  void transposedPlainWeightsAreFoundWithoutAKnownHiddenSize() {
    QMoeNodes nodes =
        QMoeNodes.blockWise()
            .transposed()
            .unknownShape(QMoeInput.INPUT)
            .output(ElementType.FLOAT, Optional.empty());

    assertThat(refusal(nodes, RoutingSemantics.ORT_CPU).code()).isEqualTo("qmoe.legacy-layout");
  }

  @ParameterizedTest
  @EnumSource
  void aStatedLayoutNeedsNoNote(RoutingSemantics routing) {
    for (long prepacked : new long[] {0, 1}) {
      assertThat(
              supported(tiled().build().integer("weights_prepacked", prepacked), routing).notes())
          .isEmpty();
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anUnstatedLayoutIsNoted(boolean absent) {
    QMoeNodes nodes = tiled().build();
    if (!absent) {
      nodes.integer("weights_prepacked", -1);
    }

    assertThat(supported(nodes, RoutingSemantics.ORT_CPU).notes())
        .singleElement()
        .asString()
        .contains("read as plain rows")
        .doesNotContain("cannot tell");
    assertThat(supported(nodes, RoutingSemantics.ORT_CUDA).notes())
        .singleElement()
        .asString()
        .contains("in the layout of ONNX Runtime's CUDA kernel")
        .contains("set weights_prepacked=0");
  }

  @Test
  void anUnstatedLayoutThatTheShapesCannotTellIsNotedAsSuch() {
    QMoeNodes.Geometry square = new QMoeNodes.Geometry().inter(64);

    assertThat(supported(square.build(), RoutingSemantics.ORT_CPU).notes())
        .singleElement()
        .asString()
        .contains("both 64")
        .contains("cannot tell");
    assertThat(supported(square.fusedSwiglu().build(), RoutingSemantics.ORT_CPU).notes())
        .singleElement()
        .asString()
        .doesNotContain("cannot tell");
  }

  private static Supported supported(QMoeNodes nodes, RoutingSemantics routing) {
    QMoeReading reading = QMoeSpecs.read(nodes.node(), routing);
    assertThat(reading).isInstanceOf(Supported.class);
    return (Supported) reading;
  }

  private static Unsupported refusal(QMoeNodes nodes, RoutingSemantics routing) {
    QMoeReading reading = QMoeSpecs.read(nodes.node(), routing);
    assertThat(reading).isInstanceOf(Unsupported.class);
    return (Unsupported) reading;
  }
}
