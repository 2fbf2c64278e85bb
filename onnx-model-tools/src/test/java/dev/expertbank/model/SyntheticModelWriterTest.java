package dev.expertbank.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.assertj.core.api.Assertions.within;

import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.TensorShape;
import dev.expertbank.spi.qmoe.QMoeInput;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.QMoeSpecs;
import dev.expertbank.spi.qmoe.RoutingSemantics;
import dev.expertbank.spi.qmoe.WeightLayout;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class SyntheticModelWriterTest {
  @TempDir private Path directory;

  private static SyntheticModel.Builder small() {
    return SyntheticModel.builder().geometry(64, 96, 3, 2).layers(2).seed(5);
  }

  /** Another width than height, and a row of several tiles. */
  private static SyntheticModel.Builder sm80(int bits) {
    return small().geometry(192, 128, 3, 2).quantization(bits, 32).layout(WeightLayout.SM80);
  }

  @Test
  void theSameSeedGivesTheSameBytesEverywhere() throws Exception {
    SyntheticModel model =
        small().zeroPoints(true).types(ElementType.FLOAT, ElementType.FLOAT16).build();

    SyntheticModelWriter.Written written = write(model, "m.onnx");

    assertThat(sha256(written.data()))
        .isEqualTo("edd6cec2c9f1243158ea5b7687e072073491197fa21284053c80ae2b0581f0b6");
    assertThat(sha256(written.model()))
        .isEqualTo("22bff43b2864b6032122c4b880008c77283ca84d1a56384430d098fb09aaccbd");
  }

  @Test
  void anotherSeedGivesOtherBytes() throws Exception {
    assertThat(sha256(write(small().seed(1).build(), "a.onnx").data()))
        .isNotEqualTo(sha256(write(small().seed(2).build(), "b.onnx").data()));
  }

  static Stream<SyntheticModel> models() {
    List<SyntheticModel> models = new ArrayList<>();
    for (int bits : new int[] {2, 4, 8}) {
      for (int blockSize : new int[] {0, 16, 32, 256}) {
        for (boolean zeroPoints : new boolean[] {false, true}) {
          models.add(small().quantization(bits, blockSize).zeroPoints(zeroPoints).build());
        }
      }
    }
    for (ElementType type : List.of(ElementType.FLOAT, ElementType.FLOAT16, ElementType.BFLOAT16)) {
      models.add(small().types(type, type).layers(3).build());
      models.add(small().types(type, ElementType.FLOAT).routerInputs(true).build());
    }
    models.add(small().activation("swiglu", 2, false).build());
    models.add(small().activation("swiglu", 0, true).biases(false).build());
    models.add(small().activation("gelu", 0, true).normalizeRoutingWeights(false).build());
    models.add(small().activation("relu", 0, false).build());
    models.add(small().swiglu(1, 0, Float.POSITIVE_INFINITY).build());
    models.add(small().geometry(36, 20, 2, 1).quantization(2, 16).zeroPoints(true).build());
    models.add(sm80(4).build());
    models.add(sm80(8).activation("swiglu", 0, true).build());
    return models.stream();
  }

  @ParameterizedTest
  @MethodSource("models")
  void everyNodeReadsBackAsItWasAsked(SyntheticModel asked) {
    SyntheticModelWriter.Written written = write(asked, "m.onnx");

    OnnxModel model = OnnxModelReader.read(written.model());

    List<OnnxModel.LocatedNode> nodes = model.nodes("com.microsoft::QMoE");
    assertThat(nodes).hasSize(asked.layers());
    for (OnnxModel.LocatedNode node : nodes) {
      QMoeReading reading = QMoeSpecs.read(node.node(), RoutingSemantics.ORT_CPU);
      assertThat(reading).isInstanceOf(QMoeReading.Supported.class);
      QMoeSpec spec = ((QMoeReading.Supported) reading).spec();
      assertThat(spec.hidden()).isEqualTo(asked.hidden());
      assertThat(spec.inter()).isEqualTo(asked.inter());
      assertThat(spec.experts()).isEqualTo(asked.experts());
      assertThat(spec.topK()).isEqualTo(asked.topK());
      assertThat(spec.bits()).isEqualTo(asked.bits());
      assertThat(spec.layout()).isEqualTo(asked.layout());
      assertThat(spec.blockSize()).isEqualTo(asked.blockSize() < 256 ? asked.blockSize() : 0);
      assertThat(spec.activation().schemaName()).isEqualTo(asked.activation());
      assertThat(spec.swigluFusion()).isEqualTo(asked.swigluFusion());
      assertThat(spec.fc3()).isEqualTo(asked.fc3());
      assertThat(spec.has(QMoeInput.FC2_ZERO_POINTS)).isEqualTo(asked.zeroPoints());
      assertThat(spec.has(QMoeInput.FC1_BIAS)).isEqualTo(asked.biases());
      assertThat(spec.ioType()).isEqualTo(asked.ioType());
      assertThat(spec.scaleType()).isEqualTo(asked.scaleType());
      assertThat(spec.normalizeRoutingWeights()).isEqualTo(asked.normalizeRoutingWeights());
      if (asked.activation().equals("swiglu")) {
        assertThat(spec.alpha()).isEqualTo(asked.alpha());
        assertThat(spec.beta()).isEqualTo(asked.beta());
        assertThat(spec.limit()).isEqualTo(asked.limit());
      }
    }
  }

  /** Every tensor of the plain model, weights encoded as a whole rather than in pieces. */
  @ParameterizedTest
  @ValueSource(ints = {4, 8})
  void theLayoutChangesNothingButTheOrderOfTheWeights(int bits) {
    List<SyntheticTensor> plain =
        SyntheticTensor.ofLayer(sm80(bits).layout(WeightLayout.PLAIN).build(), 1);
    List<SyntheticTensor> swizzled = SyntheticTensor.ofLayer(sm80(bits).build(), 1);

    assertThat(swizzled).hasSameSizeAs(plain);
    for (int i = 0; i < plain.size(); i++) {
      SyntheticTensor tensor = swizzled.get(i);
      if (tensor.values() instanceof SyntheticTensor.Values.Swizzled(int _, int reduction)) {
        byte[] encoded = Sm80Encoder.encode(bits, reduction, draw(plain.get(i), 8));
        assertThat(draw(tensor, 128)).as(tensor.name()).isEqualTo(encoded);
        assertThat(draw(tensor, (int) tensor.byteLength())).isEqualTo(encoded);
        assertThat(tensor.shape())
            .isEqualTo(TensorShape.of(3, reduction, plain.get(i).shape().dim(1) * bits / 8));
      } else {
        assertThat(tensor).isEqualTo(plain.get(i));
      }
    }
  }

  @Test
  void tensorsAreAlignedAndFillTheFile() throws IOException {
    SyntheticModelWriter.Written written = write(small().zeroPoints(true).build(), "m.onnx");

    List<ConstantData.External> ranges =
        OnnxModelReader.read(written.model())
            .initializers()
            .map(OnnxInitializer::data)
            .filter(ConstantData.External.class::isInstance)
            .map(ConstantData.External.class::cast)
            .toList();

    long end = 0;
    for (ConstantData.External range : ranges) {
      assertThat(range.location()).isEqualTo("m.onnx.data");
      assertThat(range.offset() % SyntheticModelWriter.ALIGNMENT).isZero();
      assertThat(range.offset()).isBetween(end, end + SyntheticModelWriter.ALIGNMENT - 1);
      end = range.offset() + range.byteLength();
    }
    assertThat(ranges).hasSize(2 * 9);
    assertThat(Files.size(written.data())).isEqualTo(end).isEqualTo(written.dataBytes());
  }

  @Test
  void anExpertOfGptOss20bTakesTheBytesOfItsPublicExports() {
    SyntheticModel model =
        ModelGeometry.named("gpt-oss-20b")
            .orElseThrow()
            .synthetic()
            .types(ElementType.FLOAT16, ElementType.FLOAT16)
            .build();
    long experts =
        SyntheticTensor.ofLayer(model, 0).stream()
            .filter(t -> t.slot() >= 0)
            .mapToLong(SyntheticTensor::byteLength)
            .sum();

    assertThat(experts).isEqualTo(32 * 14_014_080L);
    assertThat(SyntheticModelWriter.dataBytes(model)).isBetween(10_700_000_000L, 10_800_000_000L);
  }

  @Test
  void everyGeometryOfTheTableCanBeSynthesised() {
    assertThat(ModelGeometry.all()).hasSize(18);
    for (ModelGeometry geometry : ModelGeometry.all()) {
      SyntheticModel model = geometry.synthetic().layers(1).build();
      assertThat(SyntheticModelWriter.dataBytes(model)).as(geometry.name()).isPositive();
    }
    assertThat(ModelGeometry.named("deepseek-v4-pro").orElseThrow().synthetic().build().limit())
        .isEqualTo(10);
    assertThat(ModelGeometry.named("gemma-4-26b-a4b").orElseThrow().synthetic().build().fc3())
        .isTrue();
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 4, 8})
  void weightsAreSymmetricAroundTheMiddleOfTheirRange(int bits) {
    byte[] bytes =
        draw(ElementType.UINT8, 1 << 18, new SyntheticTensor.Values.Quantized(bits), 1 << 18);
    int values = 1 << bits;
    long[] counts = new long[values];
    for (byte b : bytes) {
      for (int shift = 0; shift < 8; shift += bits) {
        counts[(b >>> shift) & (values - 1)]++;
      }
    }

    double share = bytes.length * (8.0 / bits) / values;
    assertThat(counts[0]).isZero();
    assertThat((double) counts[values / 2]).isCloseTo(2 * share, within(8 * Math.sqrt(2 * share)));
    for (int q = 1; q < values; q++) {
      if (q != values / 2) {
        assertThat((double) counts[q]).as("q=%d", q).isCloseTo(share, within(8 * Math.sqrt(share)));
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 4, 8})
  void zeroPointsAreNearTheMiddleOfTheirRange(int bits) {
    byte[] bytes = draw(ElementType.UINT8, 4096, new SyntheticTensor.Values.ZeroPoints(bits), 4096);
    int middle = 1 << (bits - 1);
    int spread = Math.max(1, middle / 4);
    boolean[] seen = new boolean[1 << bits];
    for (byte b : bytes) {
      for (int shift = 0; shift < 8; shift += bits) {
        int value = (b >>> shift) & ((1 << bits) - 1);
        assertThat(value).isBetween(middle - spread, middle + spread);
        seen[value] = true;
      }
    }
    for (int value = middle - spread; value <= middle + spread; value++) {
      assertThat(seen[value]).as("zero point %d", value).isTrue();
    }
  }

  @Test
  void valuesDoNotDependOnHowATensorIsCut() {
    SyntheticTensor.Values values = new SyntheticTensor.Values.Scales(0.01);
    for (ElementType type : List.of(ElementType.FLOAT, ElementType.FLOAT16, ElementType.BFLOAT16)) {
      assertThat(draw(type, 512, values, 8)).isEqualTo(draw(type, 512, values, 4096));
    }
    assertThat(draw(ElementType.UINT8, 512, new SyntheticTensor.Values.Quantized(4), 8))
        .isEqualTo(draw(ElementType.UINT8, 512, new SyntheticTensor.Values.Quantized(4), 512));
  }

  @Test
  void roundsToTheNearestBfloat16() {
    assertThat(SyntheticValues.bfloat16(1f)).isEqualTo((short) 0x3f80);
    assertThat(SyntheticValues.bfloat16(Float.intBitsToFloat(0x3f80_8000)))
        .isEqualTo((short) 0x3f80);
    assertThat(SyntheticValues.bfloat16(Float.intBitsToFloat(0x3f81_8000)))
        .isEqualTo((short) 0x3f82);
    assertThat(SyntheticValues.bfloat16(Float.intBitsToFloat(0x3f80_8001)))
        .isEqualTo((short) 0x3f81);
  }

  @Test
  void keepsExistingFilesUnlessToldOtherwise() throws IOException {
    write(small().build(), "m.onnx");
    Files.delete(directory.resolve("m.onnx"));
    byte[] before = Files.readAllBytes(directory.resolve("m.onnx.data"));

    EpException e =
        catchThrowableOfType(EpException.class, () -> write(small().seed(9).build(), "m.onnx"));

    assertThat(e.code()).isEqualTo("write.exists");
    assertThat(directory.resolve("m.onnx.data")).hasBinaryContent(before);
    try (Stream<Path> files = Files.list(directory)) {
      assertThat(files).hasSize(1);
    }
    SyntheticModelWriter.write(
        small().seed(9).build(),
        directory.resolve("m.onnx"),
        true,
        SyntheticModelWriter.Progress.NONE);
    assertThat(Files.readAllBytes(directory.resolve("m.onnx.data"))).isNotEqualTo(before);
  }

  @Test
  void refusesAModelThatDoesNotFitTheDiskBeforeItWrites() throws IOException {
    SyntheticModel huge =
        SyntheticModel.builder().geometry(7168, 2048, 4096, 8).layers(10_000).build();

    EpException e = catchThrowableOfType(EpException.class, () -> write(huge, "m.onnx"));

    assertThat(e.code()).isEqualTo("write.no-space");
    assertThat(directory).isEmptyDirectory();
  }

  @Test
  void namesAMissingDirectory() {
    assertThatThrownBy(() -> write(small().build(), "missing/m.onnx"))
        .isInstanceOf(EpException.class)
        .hasMessageContaining("missing")
        .hasMessageContaining("create it first");
  }

  @Test
  void refusesCombinationsThatTheOperatorDoesNotHave() {
    assertThatThrownBy(() -> small().geometry(64, 95, 3, 2).build())
        .hasMessage("inter must be a positive multiple of 2, not 95");
    assertThatThrownBy(() -> small().geometry(64, 96, 3, 4).build()).hasMessageContaining("topK");
    assertThatThrownBy(() -> small().quantization(3, 32).build()).hasMessageContaining("bits");
    assertThatThrownBy(() -> small().quantization(4, 24).build()).hasMessageContaining("block");
    assertThatThrownBy(() -> small().activation("silu", 1, false).build())
        .hasMessageContaining("fusion");
    assertThatThrownBy(() -> small().activation("swiglu", 0, false).build())
        .hasMessageContaining("fc3");
    assertThatThrownBy(() -> small().layers(0).build()).hasMessageContaining("layers");
    assertThatThrownBy(() -> small().layout(WeightLayout.SM80).build())
        .hasMessageContaining("multiples of 64, not 4 bits, 64 and 96");
    assertThatThrownBy(() -> sm80(2).build()).hasMessageContaining("2 bits");
  }

  /** Draws a tensor of that many bytes in pieces. */
  private static byte[] draw(
      ElementType type, int bytes, SyntheticTensor.Values values, int pieceBytes) {
    return draw(
        new SyntheticTensor(3, 2, "t", type, TensorShape.of(bytes / (type.bits() / 8)), values),
        pieceBytes);
  }

  private static byte[] draw(SyntheticTensor tensor, int pieceBytes) {
    int bytes = (int) tensor.byteLength();
    SyntheticValues drawn = new SyntheticValues(tensor, 11);
    ByteBuffer all = ByteBuffer.allocate(bytes);
    for (int at = 0; at < bytes; at += pieceBytes) {
      int count = Math.min(pieceBytes, bytes - at);
      drawn.fill(all.slice(at, count).order(ByteOrder.LITTLE_ENDIAN), at);
    }
    return all.array();
  }

  private SyntheticModelWriter.Written write(SyntheticModel model, String name) {
    return SyntheticModelWriter.write(
        model, directory.resolve(name), false, SyntheticModelWriter.Progress.NONE);
  }

  private static String sha256(Path file) throws Exception {
    return HexFormat.of()
        .formatHex(MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file)));
  }
}
