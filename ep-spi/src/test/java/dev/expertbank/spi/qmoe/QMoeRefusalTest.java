package dev.expertbank.spi.qmoe;

import static dev.expertbank.spi.qmoe.QMoeInput.FC1_BIAS;
import static dev.expertbank.spi.qmoe.QMoeInput.FC1_SCALES;
import static dev.expertbank.spi.qmoe.QMoeInput.FC1_WEIGHTS;
import static dev.expertbank.spi.qmoe.QMoeInput.FC1_ZERO_POINTS;
import static dev.expertbank.spi.qmoe.QMoeInput.FC2_SCALES;
import static dev.expertbank.spi.qmoe.QMoeInput.FC2_WEIGHTS;
import static dev.expertbank.spi.qmoe.QMoeInput.FC2_ZERO_POINTS;
import static dev.expertbank.spi.qmoe.QMoeInput.FC3_BIAS;
import static dev.expertbank.spi.qmoe.QMoeInput.FC3_SCALES;
import static dev.expertbank.spi.qmoe.QMoeInput.FC3_WEIGHTS;
import static dev.expertbank.spi.qmoe.QMoeInput.INPUT;
import static dev.expertbank.spi.qmoe.QMoeInput.ROUTER_PROBS;
import static dev.expertbank.spi.qmoe.QMoeInput.ROUTER_WEIGHTS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.params.provider.Arguments.argumentSet;

import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.GraphValue;
import dev.expertbank.spi.TensorShape;
import dev.expertbank.spi.qmoe.QMoeReading.Unsupported;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class QMoeRefusalTest {
  @ParameterizedTest
  @CsvSource({
    "expert_weight_bits,0,qmoe.bits",
    "expert_weight_bits,1,qmoe.bits",
    "expert_weight_bits,3,qmoe.bits",
    "expert_weight_bits,16,qmoe.bits",
    "expert_weight_bits,-4,qmoe.bits",
    "expert_weight_bits,4294967300,qmoe.bits", // 4 in its low 32 bits
    "block_size,-1,qmoe.block",
    "block_size,7,qmoe.block",
    "block_size,8,qmoe.block",
    "block_size,48,qmoe.block",
    "block_size,1099511627776,qmoe.block",
    "block_size,-9223372036854775808,qmoe.block",
    "k,0,qmoe.k",
    "k,-1,qmoe.k",
    "k,5,qmoe.k",
    "k,2147483648,qmoe.k",
    "k,4294967297,qmoe.k",
    "normalize_routing_weights,2,qmoe.attr",
    "normalize_routing_weights,-1,qmoe.attr",
    "use_sparse_mixer,1,qmoe.attr",
    "swiglu_fusion,3,qmoe.attr",
    "swiglu_fusion,-1,qmoe.attr",
    "swiglu_fusion,1,qmoe.activation", // with silu
    "weights_prepacked,2,qmoe.layout",
    "weights_prepacked,-2,qmoe.layout",
    "weights_prepacked,4294967297,qmoe.layout",
    "accuracy_level,4,qmoe.attr",
    "num_shared_experts,1,qmoe.attr",
    "fc1_expert_weight_bits,4,qmoe.attr",
    "swiglu_limit,7,qmoe.attr", // an integer where a float belongs
  })
  void integerAttributes(String name, long value, String code) {
    Unsupported refusal = refusal(QMoeNodes.blockWise().integer(name, value));

    assertThat(refusal.code()).isEqualTo(code);
    assertThat(refusal.reason()).contains(name.equals("k") ? "attribute k" : name);
  }

  @ParameterizedTest
  @CsvSource({
    "swiglu_limit,NaN",
    "swiglu_limit,-1",
    "swiglu_limit,0",
    "activation_alpha,NaN",
    "activation_alpha,Infinity",
    "activation_beta,-Infinity",
    "k,1", // a float where an integer belongs
  })
  void floatAttributes(String name, float value) {
    assertThat(refusal(QMoeNodes.blockWise().number(name, value)).code()).isEqualTo("qmoe.attr");
  }

  @ParameterizedTest
  @ValueSource(strings = {"SwiGLU", "swish", "", "relu ", "geglu"})
  void activationNames(String name) {
    assertThat(refusal(QMoeNodes.blockWise().text("activation_type", name)).code())
        .isEqualTo("qmoe.attr");
  }

  @ParameterizedTest
  @ValueSource(strings = {"int8", "", "INT", "fp4", "nvfp4", "fp8", "wfp4afp8"})
  void quantTypes(String name) {
    assertThat(refusal(QMoeNodes.blockWise().text("quant_type", name)).code())
        .isEqualTo("qmoe.quant-type");
  }

  static Stream<Arguments> nodes() {
    return Stream.of(
        of("input missing", "qmoe.input", n -> n.without(INPUT)),
        of("router missing", "qmoe.input", n -> n.without(ROUTER_PROBS)),
        of("fc2 missing", "qmoe.input", n -> n.without(FC2_WEIGHTS)),
        of("fc1 scales missing", "qmoe.scales", n -> n.without(FC1_SCALES)),
        of("fc3 scales missing", "qmoe.scales", n -> n.with(FC3_WEIGHTS)),
        of("fc3 scales alone", "qmoe.fc3", n -> n.with(FC3_SCALES)),
        of("fc3 bias alone", "qmoe.fc3", n -> n.with(FC3_BIAS)),
        of("rank 2 weights", "qmoe.shape", n -> n.shape(FC1_WEIGHTS, 4, 3072)),
        of("rank 0 weights", "qmoe.shape", n -> n.shape(FC2_WEIGHTS)),
        of("fc1 rows", "qmoe.shape", n -> n.shape(FC1_WEIGHTS, 4, 95, 32)),
        of("fc1 row bytes", "qmoe.shape", n -> n.shape(FC1_WEIGHTS, 4, 96, 33)),
        of("no inter follows", "qmoe.shape", n -> n.shape(FC2_WEIGHTS, 4, 63, 48)),
        of("inter is 0", "qmoe.shape", n -> n.shape(FC2_WEIGHTS, 4, 64, 0)),
        of("hidden is 0", "qmoe.shape", n -> n.value(INPUT, FLOAT, TensorShape.of(-1, 0))),
        of("odd hidden", "qmoe.shape", n -> n.value(INPUT, FLOAT, TensorShape.of(-1, 2048))),
        of("rank 1 input", "qmoe.shape", n -> n.value(INPUT, FLOAT, TensorShape.of(64))),
        of("rank 4 input", "qmoe.shape", n -> n.value(INPUT, FLOAT, TensorShape.of(1, 1, 1, 64))),
        of("scalar input", "qmoe.shape", n -> n.value(INPUT, FLOAT, TensorShape.of())),
        of("other fc2 experts", "qmoe.experts", n -> n.shape(FC2_WEIGHTS, 3, 64, 48)),
        of("other scales experts", "qmoe.experts", n -> n.shape(FC1_SCALES, 5, 96, 2)),
        of("other router experts", "qmoe.experts", n -> router(n, -1, 5)),
        of("rank 3 router", "qmoe.shape", n -> router(n, 1, 1, 4)),
        of("scalar router", "qmoe.shape", n -> router(n)),
        of("router rows", "qmoe.shape", n -> router(input(n, 2, 3, 64), 5, 4)),
        of("tokens overflow", "qmoe.shape", n -> router(input(n, 1L << 40, 1L << 40, 64), 5, 4)),
        of("blocks rounded down", "qmoe.scales", n -> n.shape(FC1_SCALES, 4, 96, 1)),
        of("scales rank", "qmoe.scales", n -> n.shape(FC1_SCALES, 4, 192)),
        of("scales rows", "qmoe.scales", n -> n.shape(FC2_SCALES, 4, 63, 3)),
        of("int scales", "qmoe.scales", n -> n.type(FC1_SCALES, ElementType.INT8)),
        of("mixed scales", "qmoe.scales", n -> n.type(FC2_SCALES, ElementType.FLOAT16)),
        of("zero points short", "qmoe.zero-points", n -> n.shape(FC2_ZERO_POINTS, 4, 64, 1)),
        of("zero points rank", "qmoe.zero-points", n -> n.shape(FC1_ZERO_POINTS, 4, 48)),
        of("zero points type", "qmoe.zero-points", n -> n.type(FC1_ZERO_POINTS, ElementType.INT8)),
        of("bias length", "qmoe.bias", n -> n.shape(FC1_BIAS, 4, 95)),
        of("empty bias", "qmoe.bias", n -> n.shape(FC1_BIAS, 4, 0)),
        of("bias type", "qmoe.bias", n -> n.type(FC1_BIAS, ElementType.FLOAT16)),
        of("float8 weights", "qmoe.type", n -> n.type(FC1_WEIGHTS, ElementType.FLOAT8E4M3FN)),
        of("int4 weights", "qmoe.type", n -> n.type(FC1_WEIGHTS, ElementType.UINT4)),
        of("string weights", "qmoe.type", n -> n.type(FC1_WEIGHTS, ElementType.STRING)),
        of("router type", "qmoe.type", n -> n.value(ROUTER_PROBS, DOUBLE, TensorShape.of(-1, 4))),
        of("output type", "qmoe.type", n -> n.output(ElementType.FLOAT16, Optional.empty())),
        of("double", "qmoe.type", n -> n.value(INPUT, DOUBLE, TensorShape.of(-1, 64))),
        of(
            "router_weights shape",
            "qmoe.shape",
            n -> n.value(ROUTER_WEIGHTS, FLOAT, TensorShape.of(-1, 3))),
        of(
            "router_weights type",
            "qmoe.type",
            n -> n.value(ROUTER_WEIGHTS, DOUBLE, TensorShape.of(-1, 4))),
        of(
            "no type known",
            "qmoe.type",
            n ->
                n.value(INPUT, ElementType.UNDEFINED, TensorShape.of(-1, 64))
                    .value(ROUTER_PROBS, ElementType.UNDEFINED, TensorShape.of(-1, 4))
                    .output(ElementType.UNDEFINED, Optional.empty())),
        of("fused swiglu with fc3", "qmoe.fc3", n -> fused().with(FC3_WEIGHTS, FC3_SCALES)),
        of("swiglu alone", "qmoe.fc3", n -> n.text("activation_type", "swiglu")),
        of("other operator", "qmoe.operator", n -> n.domain("ai.onnx")));
  }

  @ParameterizedTest
  @MethodSource("nodes")
  void nodesThatAreNotSupported(String code, UnaryOperator<QMoeNodes> change) {
    Unsupported refusal = refusal(change.apply(QMoeNodes.blockWise()));

    assertThat(refusal.code()).isEqualTo(code);
  }

  @Test
  void noExperts() {
    QMoeNodes nodes = new QMoeNodes.Geometry().experts(1).build();
    for (QMoeInput input : List.of(FC1_WEIGHTS, FC1_SCALES, FC2_WEIGHTS, FC2_SCALES)) {
      nodes.shape(input, 0, 1, 1);
    }
    assertThat(refusal(router(nodes, -1, 0)).code()).isEqualTo("qmoe.experts");
  }

  @Test
  void hiddenSizeThatDoesNotFillABytePerRow() {
    QMoeNodes nodes = new QMoeNodes.Geometry().bits(2).hidden(6).inter(8).blockSize(0).build();

    Unsupported refusal = refusal(nodes);

    assertThat(refusal.code()).isEqualTo("qmoe.shape");
    assertThat(refusal.reason()).contains("hidden size is 6").contains("4 weights in a byte");
  }

  @Test
  void scalesOfABlockWiseNodeAllHaveRankThree() {
    QMoeNodes nodes = new QMoeNodes.Geometry().inter(32).build().shape(FC2_SCALES, 4, 64);

    Unsupported refusal = refusal(nodes);

    assertThat(refusal.code()).isEqualTo("qmoe.scales");
    assertThat(refusal.reason())
        .contains("fc2_scales 'moe.fc2_scales'")
        .contains("[4,64]")
        .contains("[4,64,1]");
  }

  @Test
  void perChannelZeroPointsOfOtherShapes() {
    QMoeNodes.Geometry geometry = new QMoeNodes.Geometry().bits(2).hidden(36).blockSize(0);

    for (long[] dims : new long[][] {{4, 8}, {4, 10}, {4, 36, 1}}) {
      assertThat(refusal(geometry.build().shape(FC2_ZERO_POINTS, dims)).code())
          .isEqualTo("qmoe.zero-points");
    }
  }

  @ParameterizedTest
  @EnumSource(
      names = {
        "FC1_WEIGHTS",
        "FC1_SCALES",
        "FC2_WEIGHTS",
        "FC2_SCALES",
        "FC1_BIAS",
        "FC2_BIAS",
        "FC1_ZERO_POINTS"
      })
  void tensorsThatAreNoConstants(QMoeInput input) {
    Unsupported refusal = refusal(QMoeNodes.blockWise().notConstant(input));

    assertThat(refusal.code()).isEqualTo("qmoe.not-constant");
    assertThat(refusal.reason()).contains("'moe." + input.schemaName() + "'");
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.MATCH_ANY, names = ".*GLOBAL_SCALE|.*ACT.*_SCALE")
  void tensorsOfTheFloatFormats(QMoeInput input) {
    assertThat(refusal(QMoeNodes.blockWise().with(input)).code()).isEqualTo("qmoe.quant-type");
  }

  @Test
  void swigluWithoutFusionNamesBothFixes() {
    assertThat(refusal(fused().integer("swiglu_fusion", 0)).reason())
        .contains("set swiglu_fusion=1")
        .contains("routing.semantics=ort-cuda");
  }

  @Test
  void dataThatIsNotAsLongAsTheShapeSays() {
    TensorShape shape = TensorShape.of(4, 96, 32);
    QMoeNodes external =
        QMoeNodes.blockWise()
            .constant(FC1_WEIGHTS, ElementType.UINT8, shape, external(0, 4 * 96 * 32 - 1));
    QMoeNodes inline =
        QMoeNodes.blockWise()
            .constant(
                FC1_WEIGHTS, ElementType.UINT8, shape, new ConstantData.Inline(7, target -> {}));

    assertThat(refusal(external).code()).isEqualTo("external.length-mismatch");
    assertThat(refusal(external).reason()).contains("12288").contains("12287");
    assertThat(refusal(inline).code()).isEqualTo("qmoe.shape");
  }

  @ParameterizedTest
  @CsvSource({"-1,12288", "9223372036854775807,12288", "0,-12288"})
  void rangesThatNoFileHas(long offset, long length) {
    QMoeNodes nodes =
        QMoeNodes.blockWise()
            .constant(
                FC1_WEIGHTS,
                ElementType.UINT8,
                TensorShape.of(4, 96, 32),
                external(offset, length));

    assertThat(refusal(nodes).code()).isEqualTo("external.range");
  }

  @Test
  void theFirstFailingCheckGivesTheCode() {
    QMoeNodes nodes =
        QMoeNodes.blockWise()
            .shape(FC1_SCALES, 4, 1)
            .notConstant(FC2_WEIGHTS)
            .integer("k", 0)
            .integer("expert_weight_bits", 3)
            .text("quant_type", "fp4")
            .integer("zzz", 1)
            .integer("aaa", 1);

    assertThat(refusal(nodes).reason()).contains("'aaa'");
    assertThat(refusal(nodes.withoutAttribute("aaa")).reason()).contains("'zzz'");
    assertThat(refusal(nodes.withoutAttribute("zzz")).code()).isEqualTo("qmoe.quant-type");
    assertThat(refusal(nodes.withoutAttribute("quant_type")).code()).isEqualTo("qmoe.bits");
    assertThat(refusal(nodes.integer("expert_weight_bits", 4)).code()).isEqualTo("qmoe.k");
    assertThat(refusal(nodes.integer("k", 2)).code()).isEqualTo("qmoe.not-constant");
    assertThat(refusal(nodes.with(FC2_WEIGHTS)).code()).isEqualTo("qmoe.scales");
  }

  @Test
  void reasonsAreShortAndPrintableWhateverTheNodeHolds() {
    String evil = "\u001b[2J\r\n" + "x".repeat(1_000_000);
    long[] manyDims = new long[10_000];
    Arrays.fill(manyDims, 1);
    List<QMoeNodes> nodes =
        List.of(
            QMoeNodes.blockWise().integer(evil, 1),
            QMoeNodes.blockWise().text("activation_type", evil),
            QMoeNodes.blockWise().text("quant_type", evil),
            QMoeNodes.blockWise().attribute("k", new AttributeValue.Opaque(evil)),
            QMoeNodes.blockWise().domain(evil),
            QMoeNodes.blockWise().shape(FC1_WEIGHTS, manyDims),
            QMoeNodes.blockWise().value(INPUT, FLOAT, TensorShape.of(manyDims)),
            router(QMoeNodes.blockWise(), manyDims));

    for (QMoeNodes node : nodes) {
      assertThat(refusal(node).reason()).hasSizeLessThan(600).matches("\\P{Cntrl}+");
    }
  }

  @Test
  void neverThrowsWhateverTheNodeHolds() {
    Random random = new Random(20260101);
    Map<String, Integer> codes = new HashMap<>();
    for (int i = 0; i < 20_000; i++) {
      QMoeReading reading =
          QMoeSpecs.read(randomNode(random), any(random, List.of(RoutingSemantics.values())));
      switch (reading) {
        case Unsupported refusal -> codes.merge(refusal.code(), 1, Integer::sum);
        case QMoeReading.Supported supported -> {
          assertThat(supported.spec().bytesPerExpert()).isPositive();
          codes.merge("supported", 1, Integer::sum);
        }
      }
    }
    assertThat(codes).as("the nodes reach many checks").hasSizeGreaterThan(12);
  }

  /** A valid node with a few of its parts replaced by extreme ones. */
  private static GraphNode randomNode(Random random) {
    GraphNode valid =
        fused().with(FC1_BIAS, FC1_ZERO_POINTS, FC2_ZERO_POINTS, ROUTER_WEIGHTS).node();
    Map<String, AttributeValue> attributes = new HashMap<>(valid.attributes());
    List<GraphValue> inputs = new ArrayList<>(valid.inputs());
    for (int changes = random.nextInt(4); changes >= 0; changes--) {
      if (random.nextInt(3) == 0) {
        List<String> names = new ArrayList<>(attributes.keySet());
        Collections.sort(names);
        attributes.put(any(random, names), new AttributeValue.IntValue(extreme(random)));
      } else {
        int slot = random.nextInt(inputs.size());
        inputs.set(slot, random.nextInt(5) == 0 ? null : randomValue(random));
      }
    }
    return new GraphNode(
        valid.name(), valid.domain(), "QMoE", 1, attributes, inputs, valid.outputs());
  }

  private static GraphValue randomValue(Random random) {
    long[] dims = random.longs(random.nextInt(5)).map(any -> extreme(random)).toArray();
    TensorShape shape = TensorShape.of(dims);
    ElementType type =
        random.nextBoolean() ? ElementType.UINT8 : any(random, List.of(ElementType.values()));
    long length;
    try {
      length = shape.isStatic() ? type.bytes(shape.elementCount()) : extreme(random);
    } catch (ArithmeticException _) {
      length = extreme(random);
    }
    return new GraphValue(
        "random",
        type,
        random.nextInt(10) == 0 ? Optional.empty() : Optional.of(shape),
        random.nextInt(10) == 0
            ? Optional.empty()
            : Optional.of(external(random.nextInt(4) == 0 ? extreme(random) : 0, length)));
  }

  private static <T> T any(Random random, List<T> values) {
    return values.get(random.nextInt(values.size()));
  }

  private static long extreme(Random random) {
    long[] values = {
      0,
      1,
      2,
      3,
      4,
      8,
      32,
      48,
      64,
      96,
      192,
      1L << 31,
      1L << 32,
      1L << 62,
      Long.MAX_VALUE,
      -1,
      Long.MIN_VALUE,
      Integer.MAX_VALUE
    };
    return values[random.nextInt(values.length)];
  }

  private static final ElementType FLOAT = ElementType.FLOAT;
  private static final ElementType DOUBLE = ElementType.DOUBLE;

  private static Arguments of(String name, String code, UnaryOperator<QMoeNodes> change) {
    return argumentSet(name, code, change);
  }

  private static QMoeNodes fused() {
    return new QMoeNodes.Geometry().fusedSwiglu().build();
  }

  private static QMoeNodes router(QMoeNodes nodes, long... dims) {
    return nodes.value(ROUTER_PROBS, FLOAT, TensorShape.of(dims));
  }

  private static QMoeNodes input(QMoeNodes nodes, long... dims) {
    return nodes.value(INPUT, FLOAT, TensorShape.of(dims));
  }

  /** Weights of shape {@code [E, K, N/2]}. */
  private static ConstantData external(long offset, long length) {
    return new ConstantData.External("weights.bin", offset, length);
  }

  private static Unsupported refusal(QMoeNodes nodes) {
    QMoeReading reading = QMoeSpecs.read(nodes.node(), RoutingSemantics.ORT_CPU);
    assertThat(reading).isInstanceOf(Unsupported.class);
    return (Unsupported) reading;
  }
}
