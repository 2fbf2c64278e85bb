package dev.expertbank.spi.qmoe;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.TensorShape;
import dev.expertbank.spi.qmoe.QMoeReading.Supported;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class QMoeSpecsTest {
  @Test
  void theGptOssLayerHasTheKnownBytesPerExpert() {
    QMoeSpec spec =
        spec(
            new QMoeNodes.Geometry()
                .experts(32)
                .hidden(2880)
                .inter(2880)
                .fusedSwiglu()
                .types(ElementType.FLOAT16, ElementType.FLOAT16)
                .build()
                .with(QMoeInput.FC1_BIAS, QMoeInput.FC2_BIAS)
                .integer("k", 4)
                .integer("normalize_routing_weights", 1)
                .number("activation_alpha", 1.702f)
                .number("activation_beta", 1)
                .number("swiglu_limit", 7)
                .integer("weights_prepacked", 0));

    assertThat(spec.bytesPerExpert(QMoeInput.FC1_WEIGHTS)).isEqualTo(8_294_400);
    assertThat(spec.bytesPerExpert(QMoeInput.FC1_SCALES)).isEqualTo(1_036_800);
    assertThat(spec.bytesPerExpert(QMoeInput.FC1_BIAS)).isEqualTo(11_520);
    assertThat(spec.bytesPerExpert(QMoeInput.FC2_WEIGHTS)).isEqualTo(4_147_200);
    assertThat(spec.bytesPerExpert(QMoeInput.FC2_SCALES)).isEqualTo(518_400);
    assertThat(spec.bytesPerExpert(QMoeInput.FC2_BIAS)).isEqualTo(5_760);
    assertThat(spec.bytesPerExpert(QMoeInput.FC1_ZERO_POINTS)).isZero();
    assertThat(spec.bytesPerExpert()).isEqualTo(14_014_080);

    assertThat(spec.hidden()).isEqualTo(2880);
    assertThat(spec.inter()).isEqualTo(2880);
    assertThat(spec.experts()).isEqualTo(32);
    assertThat(spec.topK()).isEqualTo(4);
    assertThat(spec.activation()).isEqualTo(Activation.SWIGLU);
    assertThat(spec.swigluFusion()).isEqualTo(1);
    assertThat(spec.fc3()).isFalse();
    assertThat(spec.ioType()).isEqualTo(ElementType.FLOAT16);
    assertThat(spec.normalizeRoutingWeights()).isTrue();
    assertThat(spec.routerWeights()).isFalse();
    assertThat(spec.alpha()).isEqualTo(1.702f);
    assertThat(spec.beta()).isEqualTo(1);
    assertThat(spec.limit()).isEqualTo(7);
    assertThat(spec.rows(Fc.FC1)).isEqualTo(5760);
    assertThat(spec.reduction(Fc.FC1)).isEqualTo(2880);
    assertThat(spec.blocks(Fc.FC1)).isEqualTo(90);
    assertThat(spec.packedRowBytes(Fc.FC1)).isEqualTo(1440);
  }

  @Test
  void theLayersOfARectangularExpertDiffer() {
    QMoeSpec spec = spec(QMoeNodes.blockWise().with(QMoeInput.FC3_WEIGHTS, QMoeInput.FC3_SCALES));

    assertThat(List.of(spec.rows(Fc.FC1), spec.rows(Fc.FC2), spec.rows(Fc.FC3)))
        .containsExactly(96, 64, 96);
    assertThat(List.of(spec.reduction(Fc.FC1), spec.reduction(Fc.FC2), spec.reduction(Fc.FC3)))
        .containsExactly(64, 96, 64);
    assertThat(List.of(spec.blocks(Fc.FC1), spec.blocks(Fc.FC2), spec.blocks(Fc.FC3)))
        .containsExactly(2, 3, 2);
    assertThat(spec.packedRowBytes(Fc.FC2)).isEqualTo(48);
    assertThat(spec.fc3()).isTrue();
    assertThat(spec.has(QMoeInput.FC3_SCALES)).isTrue();
    assertThat(spec.has(QMoeInput.FC3_BIAS)).isFalse();
  }

  @Test
  void absentAttributesHaveTheSchemasDefaults() {
    QMoeNodes bare =
        QMoeNodes.perChannel()
            .withoutAttribute("k")
            .withoutAttribute("expert_weight_bits")
            .withoutAttribute("activation_type");
    QMoeNodes defaultsStated =
        QMoeNodes.perChannel()
            .text("activation_type", "relu")
            .integer("k", 1)
            .integer("normalize_routing_weights", 0)
            .integer("use_sparse_mixer", 0)
            .integer("expert_weight_bits", 4)
            .integer("swiglu_fusion", 0)
            .number("activation_alpha", 1)
            .number("activation_beta", 0)
            .text("quant_type", "int")
            .integer("weights_prepacked", -1);

    QMoeSpec spec = spec(bare);

    assertThat(spec.activation()).isEqualTo(Activation.RELU);
    assertThat(spec.topK()).isEqualTo(1);
    assertThat(spec.bits()).isEqualTo(4);
    assertThat(spec.limit()).isEqualTo(Float.POSITIVE_INFINITY);
    assertThat(spec.blockSize()).isZero();
    assertThat(read(defaultsStated)).isEqualTo(read(bare));
  }

  @ParameterizedTest
  @CsvSource({"2,0", "4,0", "8,0", "2,16", "4,16", "8,16", "4,64"})
  void everyWidthIsReadPerChannelAndBlockWise(int bits, int blockSize) {
    QMoeSpec spec =
        spec(
            new QMoeNodes.Geometry()
                .bits(bits)
                .blockSize(blockSize)
                .build()
                .with(QMoeInput.FC1_ZERO_POINTS, QMoeInput.FC2_ZERO_POINTS));

    assertThat(spec.bits()).isEqualTo(bits);
    assertThat(spec.blockSize()).isEqualTo(blockSize);
    assertThat(spec.bytesPerExpert(QMoeInput.FC1_WEIGHTS)).isEqualTo(96 * 64 * bits / 8);
    int blocks = blockSize == 0 ? 1 : 64 / blockSize;
    assertThat(spec.bytesPerExpert(QMoeInput.FC1_SCALES)).isEqualTo(96L * blocks * 4);
    int zeroPointBytes =
        blockSize == 0 ? Math.ceilDiv(96 * bits, 8) : 96 * Math.ceilDiv(blocks * bits, 8);
    assertThat(spec.bytesPerExpert(QMoeInput.FC1_ZERO_POINTS)).isEqualTo(zeroPointBytes);
  }

  @Test
  void aRaggedLastBlockCounts() {
    QMoeSpec spec = spec(new QMoeNodes.Geometry().hidden(48).inter(40).build());

    assertThat(spec.blocks(Fc.FC1)).isEqualTo(2);
    assertThat(spec.blocks(Fc.FC2)).isEqualTo(2);
  }

  @Test
  void oneBlockPerRowIsReadAsPerChannel() {
    QMoeNodes nodes =
        new QMoeNodes.Geometry()
            .blockSize(0)
            .build()
            .integer("block_size", 128)
            .integer("weights_prepacked", 0)
            .with(QMoeInput.FC1_ZERO_POINTS)
            .shape(QMoeInput.FC2_SCALES, 4, 64, 1);

    Supported reading = supported(nodes);

    assertThat(reading.spec().blockSize()).isZero();
    assertThat(reading.notes()).singleElement().asString().contains("block_size 128");
  }

  @Test
  void aLayerWithASingleBlockOfABlockWiseNodeHasRankThreeScales() {
    QMoeNodes nodes =
        new QMoeNodes.Geometry()
            .inter(32)
            .build()
            .with(QMoeInput.FC1_ZERO_POINTS, QMoeInput.FC2_ZERO_POINTS);

    QMoeSpec spec = spec(nodes);

    assertThat(spec.blockSize()).isEqualTo(32);
    assertThat(spec.blocks(Fc.FC2)).isEqualTo(1);
    assertThat(spec.bytesPerExpert(QMoeInput.FC2_ZERO_POINTS)).isEqualTo(64);
  }

  @Test
  void perChannelScalesMayHaveRankThree() {
    QMoeSpec spec =
        spec(
            QMoeNodes.perChannel()
                .shape(QMoeInput.FC1_SCALES, 4, 96, 1)
                .shape(QMoeInput.FC2_SCALES, 4, 64, 1));

    assertThat(spec.blockSize()).isZero();
    assertThat(spec.bytesPerExpert(QMoeInput.FC1_SCALES)).isEqualTo(96 * 4);
  }

  @ParameterizedTest
  @EnumSource(
      names = {
        "FC1_BIAS",
        "FC2_BIAS",
        "FC3_BIAS",
        "FC1_ZERO_POINTS",
        "FC2_ZERO_POINTS",
        "FC3_ZERO_POINTS"
      })
  void biasesAndZeroPointsAreOptionalOneByOne(QMoeInput only) {
    QMoeSpec spec =
        spec(QMoeNodes.blockWise().with(QMoeInput.FC3_WEIGHTS, QMoeInput.FC3_SCALES).with(only));

    assertThat(spec.tensors().stream().map(QMoeTensor::input)).contains(only).hasSize(7).isSorted();
  }

  @Test
  void perChannelZeroPointsArePackedAlongTheRows() {
    QMoeNodes nodes =
        new QMoeNodes.Geometry()
            .bits(2)
            .inter(100)
            .hidden(36)
            .blockSize(0)
            .build()
            .with(QMoeInput.FC2_ZERO_POINTS);

    assertThat(spec(nodes).bytesPerExpert(QMoeInput.FC2_ZERO_POINTS)).isEqualTo(9);
  }

  @ParameterizedTest
  @EnumSource(
      value = ElementType.class,
      names = {"FLOAT", "FLOAT16", "BFLOAT16"})
  void activationsAndScalesHaveTypesOfTheirOwn(ElementType type) {
    QMoeSpec spec =
        spec(
            new QMoeNodes.Geometry()
                .types(type, ElementType.FLOAT)
                .build()
                .with(QMoeInput.FC1_BIAS));
    QMoeSpec other = spec(new QMoeNodes.Geometry().types(ElementType.FLOAT16, type).build());

    assertThat(spec.ioType()).isEqualTo(type);
    assertThat(spec.scaleType()).isEqualTo(ElementType.FLOAT);
    assertThat(other.scaleType()).isEqualTo(type);
    assertThat(other.ioType()).isEqualTo(ElementType.FLOAT16);
  }

  @Test
  void routerWeightsAreReported() {
    assertThat(spec(QMoeNodes.blockWise().with(QMoeInput.ROUTER_WEIGHTS)).routerWeights()).isTrue();
  }

  @Test
  void inputsMayHaveThreeDimensionsAndDynamicOnes() {
    QMoeNodes threeDimensional =
        QMoeNodes.blockWise()
            .value(QMoeInput.INPUT, ElementType.FLOAT, TensorShape.of(2, 3, 64))
            .value(QMoeInput.ROUTER_PROBS, ElementType.FLOAT, TensorShape.of(6, 4));
    QMoeNodes allDynamic =
        QMoeNodes.blockWise()
            .value(QMoeInput.INPUT, ElementType.FLOAT, TensorShape.of(-1, -1, -1))
            .value(QMoeInput.ROUTER_PROBS, ElementType.FLOAT, TensorShape.of(-1, -1));
    QMoeNodes unknown =
        QMoeNodes.blockWise()
            .unknownShape(QMoeInput.INPUT)
            .unknownShape(QMoeInput.ROUTER_PROBS)
            .output(ElementType.FLOAT, Optional.empty());
    QMoeNodes noTokens =
        QMoeNodes.blockWise()
            .value(QMoeInput.INPUT, ElementType.FLOAT, TensorShape.of(0, 64))
            .value(QMoeInput.ROUTER_PROBS, ElementType.FLOAT, TensorShape.of(0, 4));

    for (QMoeNodes nodes : List.of(threeDimensional, allDynamic, unknown, noTokens)) {
      assertThat(spec(nodes)).isEqualTo(spec(QMoeNodes.blockWise()));
    }
  }

  @Test
  void typesThatAModelFileLeavesOutComeFromTheOthers() {
    QMoeNodes onlyTheOutput =
        QMoeNodes.blockWise()
            .value(QMoeInput.INPUT, ElementType.UNDEFINED, TensorShape.of(-1, 64))
            .value(QMoeInput.ROUTER_PROBS, ElementType.UNDEFINED, TensorShape.of(-1, 4));
    QMoeNodes onlyABias =
        QMoeNodes.blockWise()
            .with(QMoeInput.FC2_BIAS)
            .value(QMoeInput.INPUT, ElementType.UNDEFINED, TensorShape.of(-1, 64))
            .value(QMoeInput.ROUTER_PROBS, ElementType.UNDEFINED, TensorShape.of(-1, 4))
            .output(ElementType.UNDEFINED, Optional.empty());

    assertThat(spec(onlyTheOutput).ioType()).isEqualTo(ElementType.FLOAT);
    assertThat(spec(onlyABias).ioType()).isEqualTo(ElementType.FLOAT);
  }

  @Test
  void inlineTensorsAreSupported() {
    assertThat(spec(QMoeNodes.blockWise().inline(QMoeInput.FC1_SCALES)))
        .isEqualTo(spec(QMoeNodes.blockWise()));
  }

  @Test
  void oneExpertAndAllExpertsPerTokenAreLegal() {
    assertThat(spec(new QMoeNodes.Geometry().experts(1).build()).topK()).isEqualTo(1);
    assertThat(spec(QMoeNodes.blockWise().integer("k", 4)).topK()).isEqualTo(4);
  }

  @Test
  void swigluKeepsTheHalvesThatTheNodeStates() {
    QMoeNodes.Geometry fused = new QMoeNodes.Geometry().fusedSwiglu();
    QMoeNodes unfused =
        QMoeNodes.blockWise()
            .text("activation_type", "swiglu")
            .with(QMoeInput.FC3_WEIGHTS, QMoeInput.FC3_SCALES);

    assertThat(spec(fused.build()).swigluFusion()).isEqualTo(1);
    assertThat(spec(fused.build().integer("swiglu_fusion", 2)).swigluFusion()).isEqualTo(2);
    assertThat(spec(unfused).swigluFusion()).isZero();
    assertThat(spec(unfused).fc3()).isTrue();
  }

  @Test
  void cudaSemanticsTakeUnstatedSwigluAsInterleavedAndSaySo() {
    QMoeNodes nodes =
        new QMoeNodes.Geometry()
            .fusedSwiglu()
            .build()
            .withoutAttribute("swiglu_fusion")
            .integer("weights_prepacked", 0);

    Supported reading = (Supported) QMoeSpecs.read(nodes.node(), RoutingSemantics.ORT_CUDA);

    assertThat(reading.spec().swigluFusion()).isEqualTo(1);
    assertThat(reading.spec().rows(Fc.FC1)).isEqualTo(192);
    assertThat(reading.spec().routing()).isEqualTo(RoutingSemantics.ORT_CUDA);
    assertThat(reading.notes()).singleElement().asString().contains("interleaved");
  }

  @Test
  void theInputTableIsInSlotOrder() {
    assertThat(Arrays.stream(QMoeInput.values()).map(QMoeInput::slot))
        .containsExactlyElementsOf(IntStream.range(0, 21).boxed().toList());
    assertThat(QMoeInput.of(Fc.FC3, QMoeInput.Role.ZERO_POINTS))
        .isEqualTo(QMoeInput.FC3_ZERO_POINTS);
  }

  private static QMoeReading read(QMoeNodes nodes) {
    return QMoeSpecs.read(nodes.node(), RoutingSemantics.ORT_CPU);
  }

  private static Supported supported(QMoeNodes nodes) {
    assertThat(read(nodes)).isInstanceOf(Supported.class);
    return (Supported) read(nodes);
  }

  private static QMoeSpec spec(QMoeNodes nodes) {
    return supported(nodes).spec();
  }
}
