package dev.expertbank.model;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import ai.onnx.proto.OnnxMl.AttributeProto;
import ai.onnx.proto.OnnxMl.GraphProto;
import ai.onnx.proto.OnnxMl.ModelProto;
import ai.onnx.proto.OnnxMl.NodeProto;
import ai.onnx.proto.OnnxMl.StringStringEntryProto;
import ai.onnx.proto.OnnxMl.TensorProto;
import com.google.protobuf.ByteString;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.TensorShape;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Files that are broken, lie about themselves, or are no ONNX models at all. */
class OnnxModelReaderHostileTest {
  @TempDir private Path directory;

  static Stream<Arguments> otherFiles() {
    byte[] tar = new byte[600];
    System.arraycopy("ustar".getBytes(ISO_8859_1), 0, tar, 257, 5);
    return Stream.of(
        Arguments.of("it is empty", new byte[0]),
        Arguments.of("GGUF", "GGUF\3\0\0\0\0".getBytes(ISO_8859_1)),
        Arguments.of("ZIP", "PK\3\4\24\0\0\0".getBytes(ISO_8859_1)),
        Arguments.of("compressed archive", "\u001f\u008b\10\0\0\0".getBytes(ISO_8859_1)),
        Arguments.of("compressed archive", tar),
        Arguments.of("ORT format", "\34\0\0\0ORTM".getBytes(ISO_8859_1)),
        Arguments.of("safetensors", "\42\0\0\0\0\0\0\0{\"__metadata__\":{}}".getBytes(ISO_8859_1)),
        Arguments.of(
            "git lfs pull", "version https://git-lfs.github.com/spec/v1\n".getBytes(UTF_8)),
        Arguments.of("text", "# A model card, höchst lesbar\n".getBytes(UTF_8)));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("otherFiles")
  void saysWhatAFileLooksLike(String look, byte[] bytes) {
    EpException e = refused(bytes);

    assertThat(e.code()).isEqualTo("model.not-onnx");
    assertThat(e).hasMessageContaining(look);
  }

  @Test
  void refusesDirectoriesAndMissingFiles() {
    assertThat(refused(directory)).hasMessageContaining("directory");
    EpException missing = refused(directory.resolve("no\u001b[31m.onnx"));
    assertThat(missing.code()).isEqualTo("model.unreadable");
    assertThat(missing.getMessage()).contains("does not exist").doesNotContain("\u001b");
  }

  @Test
  @EnabledOnOs({OS.LINUX, OS.MAC})
  void doesNotWaitForAPipe() throws Exception {
    Path pipe = directory.resolve("pipe.onnx");
    assertThat(new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor()).isZero();

    assertThat(refused(pipe)).hasMessageContaining("not a regular file");
  }

  @Test
  void refusesFilesOfTwoGibibytesWithoutReadingThem() throws IOException {
    Path file = directory.resolve("huge.onnx");
    Files.write(file, smallModel());
    try (RandomAccessFile sparse = new RandomAccessFile(file.toFile(), "rw")) {
      sparse.setLength(1L << 31);
    }

    EpException e = refused(file);

    assertThat(e.code()).isEqualTo("model.too-large");
    assertThat(e).hasMessageContaining("move weights to external data");
  }

  @Test
  void anyTruncationIsAnError() {
    byte[] bytes = smallModel();
    for (int length = 1; length < bytes.length; length++) {
      byte[] truncated = Arrays.copyOf(bytes, length);
      EpException e =
          catchThrowableOfType(EpException.class, () -> HostileModels.read(directory, truncated));
      if (e != null) {
        assertThat(e.code()).startsWith("model.");
      } else {
        // Cut between two fields of the model: what is left is a model with fewer of them.
        assertThat(length).isGreaterThan(bytes.length - 40);
      }
    }
  }

  @Test
  void changedBytesNeverCauseAnythingButAnEpException() {
    byte[] bytes = smallModel();
    Random random = new Random(7);
    for (int round = 0; round < 2000; round++) {
      byte[] changed = bytes.clone();
      for (int i = 0; i < 1 + round % 3; i++) {
        changed[random.nextInt(changed.length)] = (byte) random.nextInt();
      }
      try {
        HostileModels.read(directory, changed);
      } catch (EpException expected) {
        assertThat(expected.code()).isNotEmpty();
      }
    }
  }

  static Stream<Arguments> wireFormats() {
    return Stream.of(
        Arguments.of("a claim of 2 GiB", bytes(0x08, 10, 0x3a, 0xff, 0xff, 0xff, 0xff, 0x07)),
        Arguments.of(
            "a claim of 2^63 bytes",
            bytes(8, 10, 0x3a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01)),
        Arguments.of("a group", bytes(8, 10, 0x3b, 0x3c)),
        Arguments.of("wire type 7", bytes(8, 10, 0x3f)),
        Arguments.of("field 0", bytes(8, 10, 0x02, 0x00)),
        Arguments.of(
            "an endless number",
            bytes(8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01)),
        Arguments.of("no graph", bytes(8, 10)));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("wireFormats")
  void refusesBrokenEncodings(String name, byte[] bytes) {
    assertThat(refused(bytes).code()).as(name).isEqualTo("model.malformed");
  }

  @Test
  void limitsCountsBeforeObjectsAreBuilt() {
    byte[] nodes = new byte[2 * 600_000];
    for (int i = 0; i < nodes.length; i += 2) {
      nodes[i] = 0x0a;
    }

    EpException e = refused(modelAround(nodes));

    assertThat(e.code()).isEqualTo("model.limit");
    assertThat(e).hasMessageContaining("500,000 nodes");
  }

  @Test
  void limitsNesting() {
    GraphProto graph = GraphProto.getDefaultInstance();
    for (int depth = 0; depth < 40; depth++) {
      graph =
          GraphProto.newBuilder()
              .addNode(
                  NodeProto.newBuilder()
                      .setOpType("If")
                      .addAttribute(AttributeProto.newBuilder().setName("then_branch").setG(graph)))
              .build();
    }

    assertThat(refused(OnnxModelReaderTest.model(graph).toByteArray()).code())
        .isEqualTo("model.nesting");
  }

  static Stream<Arguments> dimensions() {
    return Stream.of(
        Arguments.of(List.of(1L << 31, 1L << 31, 4L)),
        Arguments.of(List.of(1L << 62, 2L)),
        Arguments.of(List.of(0L, Long.MAX_VALUE)),
        Arguments.of(List.of(Long.MAX_VALUE, Long.MAX_VALUE, 0L)),
        Arguments.of(List.of(4611686018427387903L)),
        Arguments.of(List.of(-1L, 4L)),
        Arguments.of(new ArrayList<>(Collections.nCopies(10_000, 1L))));
  }

  @ParameterizedTest
  @MethodSource("dimensions")
  void refusesDimensionsWithoutASize(List<Long> dims) {
    TensorProto tensor =
        TensorProto.newBuilder()
            .setName("w")
            .setDataType(ElementType.FLOAT.code())
            .addAllDims(dims)
            .setDataLocation(TensorProto.DataLocation.EXTERNAL)
            .addExternalData(HostileModels.entry("location", "w.bin"))
            .build();

    EpException e = refused(withInitializer(tensor));

    assertThat(e.code()).isEqualTo("model.dims");
    assertThat(e).hasMessageContaining("'w'");
  }

  static Stream<Arguments> externalEntries() {
    StringStringEntryProto location = HostileModels.entry("location", "w.bin");
    return Stream.of(
        Arguments.of("external.key", List.of()),
        Arguments.of("external.key", List.of(location, location)),
        Arguments.of("external.key", List.of(location, HostileModels.entry("evil_attr", "1"))),
        Arguments.of("external.key", List.of(location, HostileModels.entry("__class__", "1"))),
        Arguments.of("external.key", List.of(location, HostileModels.entry("basepath", "/etc"))),
        number("offset", "-1"),
        number("offset", "abc"),
        number("offset", "0x10"),
        number("offset", "1e3"),
        number("offset", " 1"),
        number("offset", "+1"),
        number("offset", ""),
        number("offset", "18446744073709551600"),
        number("offset", "9223372036854775808"),
        number("offset", "99999999999999999999999999"),
        number("offset", "١"),
        number("length", "-1"));
  }

  private static Arguments number(String key, String value) {
    return Arguments.of(
        "external.number",
        List.of(HostileModels.entry("location", "w.bin"), HostileModels.entry(key, value)));
  }

  @ParameterizedTest(name = "{0} {index}")
  @MethodSource("externalEntries")
  void refusesBadExternalEntries(String code, List<StringStringEntryProto> entries) {
    TensorProto tensor =
        OnnxModelReaderTest.tensor(ElementType.UINT8, 4)
            .setDataLocation(TensorProto.DataLocation.EXTERNAL)
            .addAllExternalData(entries)
            .build();

    EpException e = refused(withInitializer(tensor));

    assertThat(e.code()).isEqualTo(code);
    assertThat(e).hasMessageContaining("'w'").hasMessageContaining(".onnx");
  }

  @Test
  void refusesContradictoryDataLocations() {
    TensorProto.Builder both =
        OnnxModelReaderTest.tensor(ElementType.UINT8, 1)
            .setRawData(ByteString.copyFrom(new byte[1]))
            .addExternalData(HostileModels.entry("location", "w.bin"));

    assertThat(refused(withInitializer(both.build())).code()).isEqualTo("external.key");
    both.setDataLocation(TensorProto.DataLocation.EXTERNAL);
    assertThat(refused(withInitializer(both.build())).code()).isEqualTo("external.key");
  }

  @Test
  void refusesTensorsWithTheWrongNumberOfBytesOrValues() {
    TensorProto raw =
        OnnxModelReaderTest.tensor(ElementType.UINT4, 5)
            .setRawData(ByteString.copyFrom(new byte[2]))
            .build();
    TensorProto values = OnnxModelReaderTest.tensor(ElementType.FLOAT, 2).addFloatData(1).build();
    TensorProto otherField =
        OnnxModelReaderTest.tensor(ElementType.FLOAT, 1).addInt32Data(1).build();
    TensorProto none = OnnxModelReaderTest.tensor(ElementType.FLOAT, 1).build();

    for (TensorProto tensor : List.of(raw, values, otherField, none)) {
      assertThat(refused(withInitializer(tensor)).code()).isEqualTo("model.tensor-size");
    }
  }

  @Test
  void refusesDuplicates() {
    TensorProto tensor = OnnxModelReaderTest.tensor(ElementType.UINT8, 0).build();
    AttributeProto attribute = AttributeProto.newBuilder().setName("k").setI(1).build();
    GraphProto initializers =
        GraphProto.newBuilder().addInitializer(tensor).addInitializer(tensor).build();
    GraphProto attributes =
        GraphProto.newBuilder()
            .addNode(NodeProto.newBuilder().addAttribute(attribute).addAttribute(attribute))
            .build();

    for (GraphProto graph : List.of(initializers, attributes)) {
      assertThat(refused(OnnxModelReaderTest.model(graph).toByteArray()).code())
          .isEqualTo("model.duplicate");
    }
  }

  @Test
  void messagesAreShortAndPrintable() {
    TensorProto tensor =
        TensorProto.newBuilder()
            .setName("\u001b[2J\u202e" + "x".repeat(1_000_000))
            .setDataType(1)
            .addDims(-1)
            .build();

    String message = String.valueOf(refused(withInitializer(tensor)).getMessage());

    assertThat(message).hasSizeLessThan(1000).doesNotContain("\u001b", "\u202e");
  }

  @Test
  void refusesAModelWithoutAnIrVersion() {
    ModelProto model = OnnxModelReaderTest.model(GraphProto.getDefaultInstance());

    assertThat(refused(model.toBuilder().clearIrVersion().build().toByteArray()).code())
        .isEqualTo("model.ir-version");
    assertThat(
            HostileModels.read(
                    directory, model.toBuilder().setIrVersion(1_000_000).build().toByteArray())
                .irVersion())
        .isEqualTo(1_000_000);
  }

  private byte[] smallModel() {
    return OnnxModelBuilder.named("g")
        .input("x", ElementType.FLOAT, Dimension.symbolic("tokens"), Dimension.of(4))
        .initializer("w", ElementType.UINT8, TensorShape.of(2, 3), new byte[6])
        .node("com.microsoft", "QMoE", "moe", Map.of(), List.of("x", "w"), List.of("y"))
        .output("y", ElementType.FLOAT, Dimension.symbolic("tokens"), Dimension.of(4))
        .toBytes();
  }

  private static byte[] withInitializer(TensorProto tensor) {
    return OnnxModelReaderTest.model(GraphProto.newBuilder().addInitializer(tensor).build())
        .toByteArray();
  }

  /** A model whose graph has that encoding. */
  private static byte[] modelAround(byte[] graph) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    out.writeBytes(bytes(8, 10, 0x3a));
    int length = graph.length;
    while (length > 0x7f) {
      out.write((length & 0x7f) | 0x80);
      length >>>= 7;
    }
    out.write(length);
    out.writeBytes(graph);
    return out.toByteArray();
  }

  private static byte[] bytes(int... values) {
    byte[] bytes = new byte[values.length];
    for (int i = 0; i < values.length; i++) {
      bytes[i] = (byte) values[i];
    }
    return bytes;
  }

  private EpException refused(byte[] bytes) {
    EpException e =
        catchThrowableOfType(EpException.class, () -> HostileModels.read(directory, bytes));
    assertThat(e).isNotNull();
    return e;
  }

  private static EpException refused(Path file) {
    EpException e = catchThrowableOfType(EpException.class, () -> OnnxModelReader.read(file));
    assertThat(e).isNotNull();
    return e;
  }
}
