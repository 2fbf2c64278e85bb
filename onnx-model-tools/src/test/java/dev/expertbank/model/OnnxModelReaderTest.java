package dev.expertbank.model;

import static org.assertj.core.api.Assertions.assertThat;

import ai.onnx.proto.OnnxMl.AttributeProto;
import ai.onnx.proto.OnnxMl.FunctionProto;
import ai.onnx.proto.OnnxMl.GraphProto;
import ai.onnx.proto.OnnxMl.ModelProto;
import ai.onnx.proto.OnnxMl.NodeProto;
import ai.onnx.proto.OnnxMl.OperatorSetIdProto;
import ai.onnx.proto.OnnxMl.TensorProto;
import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.GraphValue;
import dev.expertbank.spi.TensorShape;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class OnnxModelReaderTest {
  private static final Dimension TOKENS = Dimension.symbolic("tokens");

  @TempDir private Path directory;

  @Test
  void readsBackWhatTheBuilderWrote() throws IOException {
    Path file = directory.resolve("m.onnx");
    OnnxModelBuilder.named("g")
        .input("x", ElementType.FLOAT16, TOKENS, Dimension.of(4))
        .initializer("w", ElementType.UINT8, TensorShape.of(2, 3), new byte[] {1, 2, 3, 4, 5, 6})
        .initializer(
            "big",
            ElementType.FLOAT,
            TensorShape.of(10),
            new ConstantData.External("weights.bin", 4096, 40))
        .node(
            "com.microsoft",
            "QMoE",
            "moe",
            Map.of(
                "k", new AttributeValue.IntValue(2),
                "activation_type", new AttributeValue.StringValue("swiglu"),
                "swiglu_limit", new AttributeValue.FloatValue(7),
                "ints", new AttributeValue.Ints(List.of(1L, -2L)),
                "floats", new AttributeValue.Floats(List.of(0.5f)),
                "strings", new AttributeValue.Strings(List.of("a", "b"))),
            List.of("x", "", "w", "big"),
            List.of("y"))
        .output("y", ElementType.FLOAT16, TOKENS, Dimension.unknown())
        .write(file, false);

    OnnxModel model = OnnxModelReader.read(file);

    assertThat(model.irVersion()).isEqualTo(10);
    assertThat(model.producerName()).isEqualTo("expertbank");
    assertThat(model.opsets())
        .containsExactly(Map.entry("ai.onnx", 21L), Map.entry("com.microsoft", 1L));
    assertThat(model.fileBytes()).isEqualTo(Files.size(file));
    assertThat(model.directory()).isEqualTo(directory.toRealPath());
    assertThat(model.operatorCounts()).containsExactly(Map.entry("com.microsoft::QMoE", 1L));
    assertThat(model.externalBytes()).isEqualTo(40);
    assertThat(model.inlineBytes()).isEqualTo(6);
    assertThat(model.graph().inputs().getFirst().dims().orElseThrow())
        .containsExactly(TOKENS, Dimension.of(4));
    assertThat(model.graph().outputs().getFirst().dims().orElseThrow())
        .containsExactly(TOKENS, Dimension.unknown());
    GraphNode node = model.nodes("com.microsoft::QMoE").getFirst().node();
    assertThat(node.attributes())
        .containsOnly(
            Map.entry("k", new AttributeValue.IntValue(2)),
            Map.entry("activation_type", new AttributeValue.StringValue("swiglu")),
            Map.entry("swiglu_limit", new AttributeValue.FloatValue(7)),
            Map.entry("ints", new AttributeValue.Ints(List.of(1L, -2L))),
            Map.entry("floats", new AttributeValue.Floats(List.of(0.5f))),
            Map.entry("strings", new AttributeValue.Strings(List.of("a", "b"))));
    assertThat(node.input(1)).isEmpty();
    assertThat(node.input(4)).isEmpty();
    assertThat(value(node, 0).shape()).contains(TensorShape.of(-1, 4));
    assertThat(value(node, 0).constant()).isEmpty();
    assertThat(value(node, 3).constant())
        .contains(new ConstantData.External("weights.bin", 4096, 40));
    assertThat(inlineBytes(value(node, 2))).containsExactly(1, 2, 3, 4, 5, 6);
  }

  @Test
  void resolvesConstantsOfOuterGraphs() {
    OnnxModelBuilder branch =
        OnnxModelBuilder.named("branch")
            .node("com.microsoft", "QMoE", "inner", Map.of(), List.of("x", "w", "x2"), List.of("b"))
            .output("b", ElementType.FLOAT, TOKENS);
    OnnxModel model =
        read(
            OnnxModelBuilder.named("g")
                .input("x", ElementType.FLOAT, TOKENS)
                .input("c", ElementType.BOOL)
                .initializer("w", ElementType.UINT8, TensorShape.of(1), new byte[] {9})
                .node("", "Relu", "r", Map.of(), List.of("x"), List.of("x2"))
                .node(
                    "",
                    "If",
                    "if",
                    Map.of(),
                    Map.of("then_branch", branch, "else_branch", branch),
                    List.of("c"),
                    List.of("y"))
                .build());

    List<OnnxModel.LocatedNode> nodes = model.nodes("com.microsoft::QMoE");

    assertThat(nodes)
        .extracting(OnnxModel.LocatedNode::graph)
        .containsExactly("main/if.else_branch", "main/if.then_branch");
    assertThat(inlineBytes(value(nodes.getFirst().node(), 1))).containsExactly(9);
    assertThat(value(nodes.getFirst().node(), 0).elementType()).isEqualTo(ElementType.FLOAT);
    assertThat(value(nodes.getFirst().node(), 2).elementType()).isEqualTo(ElementType.UNDEFINED);
    assertThat(model.operatorCounts())
        .containsExactly(
            Map.entry("ai.onnx::If", 1L),
            Map.entry("ai.onnx::Relu", 1L),
            Map.entry("com.microsoft::QMoE", 2L));
  }

  @Test
  void aValueOfASubgraphHidesAnOuterConstantOfThatName() {
    OnnxModelBuilder body =
        OnnxModelBuilder.named("body")
            .input("w", ElementType.UINT8, Dimension.of(1))
            .node("com.microsoft", "QMoE", "inner", Map.of(), List.of("w"), List.of("b"));
    OnnxModel model =
        read(
            OnnxModelBuilder.named("g")
                .initializer("w", ElementType.UINT8, TensorShape.of(1), new byte[] {9})
                .node("", "Loop", "", Map.of(), Map.of("body", body), List.of(), List.of("y"))
                .build());

    OnnxModel.LocatedNode inner = model.nodes("com.microsoft::QMoE").getFirst();

    assertThat(inner.graph()).isEqualTo("main/node 0.body");
    assertThat(value(inner.node(), 0).constant()).isEmpty();
  }

  @Test
  void anInitializerThatIsAlsoAGraphInputIsConstantOnlyBeforeIrVersion4() {
    OnnxModelBuilder builder =
        OnnxModelBuilder.named("g")
            .input("w", ElementType.UINT8, Dimension.of(1))
            .initializer("w", ElementType.UINT8, TensorShape.of(1), new byte[] {9})
            .node("", "Identity", "n", Map.of(), List.of("w"), List.of("y"));

    GraphNode overridable = read(builder.irVersion(4).build()).graph().nodes().getFirst();
    GraphNode constant = read(builder.irVersion(3).build()).graph().nodes().getFirst();

    assertThat(value(overridable, 0).constant()).isEmpty();
    assertThat(value(constant, 0).constant()).isPresent();
  }

  @Test
  void theTensorOfAConstantNodeIsAConstant() {
    NodeProto constant =
        NodeProto.newBuilder()
            .setOpType("Constant")
            .addOutput("w")
            .addAttribute(
                AttributeProto.newBuilder()
                    .setName("value")
                    .setType(AttributeProto.AttributeType.TENSOR)
                    .setT(TensorProto.newBuilder().setDataType(7).addDims(1).addInt64Data(5)))
            .build();
    NodeProto user = NodeProto.newBuilder().setOpType("Identity").addInput("w").build();
    OnnxModel model = read(model(GraphProto.newBuilder().addNode(constant).addNode(user).build()));

    assertThat(inlineBytes(value(model.graph().nodes().get(1), 0)))
        .containsExactly(5, 0, 0, 0, 0, 0, 0, 0);
  }

  @Test
  void findsNodesInFunctionsAndKeepsReferencedAttributesOpaque() {
    ModelProto proto =
        model(GraphProto.getDefaultInstance()).toBuilder()
            .addFunctions(
                FunctionProto.newBuilder()
                    .setDomain("custom")
                    .setName("Experts")
                    .addInput("x")
                    .addNode(
                        NodeProto.newBuilder()
                            .setDomain("com.microsoft")
                            .setOpType("QMoE")
                            .addInput("x")
                            .addAttribute(
                                AttributeProto.newBuilder().setName("k").setRefAttrName("top"))))
            .build();

    OnnxModel.LocatedNode node = read(proto).nodes("com.microsoft::QMoE").getFirst();

    assertThat(node.graph()).isEqualTo("function custom::Experts");
    assertThat(node.node().attributes().get("k")).isInstanceOf(AttributeValue.Opaque.class);
  }

  @Test
  void aRangeThatTwoInitializersShareCountsOnce() {
    ConstantData.External range = new ConstantData.External("w.bin", 0, 4);
    OnnxModel model =
        read(
            OnnxModelBuilder.named("g")
                .initializer("a", ElementType.UINT8, TensorShape.of(4), range)
                .initializer("b", ElementType.UINT8, TensorShape.of(4), range)
                .build());

    assertThat(model.externalBytes()).isEqualTo(4);
  }

  @Test
  void theLengthOfExternalDataIsComputedWhereItIsAbsent() {
    TensorProto tensor =
        TensorProto.newBuilder()
            .setName("w")
            .setDataType(ElementType.UINT4.code())
            .addDims(5)
            .setDataLocation(TensorProto.DataLocation.EXTERNAL)
            .addExternalData(HostileModels.entry("location", "w.bin"))
            .addExternalData(HostileModels.entry("checksum", "unused"))
            .addExternalData(HostileModels.entry("prepacked_0", "key|0;99999999999;x"))
            .build();

    OnnxModel model = read(model(GraphProto.newBuilder().addInitializer(tensor).build()));

    assertThat(model.graph().initializers().getFirst().data())
        .isEqualTo(new ConstantData.External("w.bin", 0, 3));
  }

  /** The typed fields of onnx.proto against the packed bytes that they stand for. */
  static Stream<Arguments> typedFields() {
    return Stream.of(
        Arguments.of(
            ElementType.FLOAT,
            tensor(ElementType.FLOAT, 2).addFloatData(1.5f).addFloatData(-2),
            little(8).putFloat(1.5f).putFloat(-2)),
        Arguments.of(
            ElementType.FLOAT16,
            tensor(ElementType.FLOAT16, 1).addInt32Data(0x3c00),
            little(2).putShort((short) 0x3c00)),
        Arguments.of(
            ElementType.INT8,
            tensor(ElementType.INT8, 2).addInt32Data(-1).addInt32Data(7),
            little(2).put((byte) -1).put((byte) 7)),
        Arguments.of(
            ElementType.INT32, tensor(ElementType.INT32, 1).addInt32Data(-5), little(4).putInt(-5)),
        Arguments.of(
            ElementType.UINT4,
            tensor(ElementType.UINT4, 3).addInt32Data(0x21).addInt32Data(0x03),
            little(2).put((byte) 0x21).put((byte) 0x03)),
        Arguments.of(
            ElementType.UINT32,
            tensor(ElementType.UINT32, 1).addUint64Data(0xffff_fff0L),
            little(4).putInt(-16)),
        Arguments.of(
            ElementType.DOUBLE,
            tensor(ElementType.DOUBLE, 1).addDoubleData(0.25),
            little(8).putDouble(0.25)),
        Arguments.of(
            ElementType.INT64,
            tensor(ElementType.INT64, 1).addInt64Data(-9),
            little(8).putLong(-9)));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("typedFields")
  void readsTypedFields(ElementType type, TensorProto.Builder tensor, ByteBuffer packed) {
    byte[] expected = new byte[packed.flip().remaining()];
    packed.get(expected);
    OnnxModel model =
        read(
            model(
                GraphProto.newBuilder()
                    .addInitializer(tensor)
                    .addNode(NodeProto.newBuilder().setOpType("Identity").addInput("w"))
                    .build()));

    GraphValue value = value(model.graph().nodes().getFirst(), 0);

    assertThat(value.elementType()).isEqualTo(type);
    assertThat(inlineBytes(value)).isEqualTo(expected);
  }

  @Test
  void aModelThatIsALinkHasItsDataBesideTheRealFile() throws IOException {
    Path real = Files.createDirectory(directory.resolve("real"));
    OnnxModelBuilder.named("g").write(real.resolve("m.onnx"), false);
    Path link = Files.createSymbolicLink(directory.resolve("link.onnx"), real.resolve("m.onnx"));
    Path far = Files.createDirectory(directory.resolve("far"));
    Path farLink = Files.createSymbolicLink(far.resolve("link.onnx"), real.resolve("m.onnx"));

    assertThat(OnnxModelReader.read(link).file()).isEqualTo(link);
    assertThat(OnnxModelReader.read(farLink).directory()).isEqualTo(real.toRealPath());
  }

  static TensorProto.Builder tensor(ElementType type, long elements) {
    return TensorProto.newBuilder().setName("w").setDataType(type.code()).addDims(elements);
  }

  private static ByteBuffer little(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }

  static ModelProto model(GraphProto graph) {
    return ModelProto.newBuilder()
        .setIrVersion(10)
        .addOpsetImport(OperatorSetIdProto.newBuilder().setVersion(21))
        .setGraph(graph)
        .build();
  }

  private OnnxModel read(ModelProto proto) {
    return HostileModels.read(directory, proto.toByteArray());
  }

  private static GraphValue value(GraphNode node, int slot) {
    return node.input(slot).orElseThrow();
  }

  private static byte[] inlineBytes(GraphValue value) {
    ConstantData.Inline inline = (ConstantData.Inline) value.constant().orElseThrow();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment target = arena.allocate(Math.max(1, inline.byteLength()));
      inline.reader().readInto(target.asSlice(0, inline.byteLength()));
      return target.asSlice(0, inline.byteLength()).toArray(ValueLayout.JAVA_BYTE);
    }
  }
}
