package dev.expertbank.spi.qmoe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.qmoe.NonPageableReason.InlineTensor;
import dev.expertbank.spi.qmoe.QMoeReading.Supported;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;

class QMoeCatalogTest {
  private static final QMoeInput[] OPTIONAL_TENSORS = {
    QMoeInput.FC1_BIAS, QMoeInput.FC2_BIAS, QMoeInput.FC1_ZERO_POINTS, QMoeInput.FC2_ZERO_POINTS
  };

  @Test
  void aGroupHoldsAllTensorsOfAnExpert() {
    QMoeNodes nodes = QMoeNodes.blockWise().with(OPTIONAL_TENSORS);
    QMoeSpec spec = spec(nodes.node());
    QMoeCatalog catalog = QMoeCatalog.of(spec, nodes.node());

    ExpertGroup group = catalog.group(3);

    assertThat(catalog.isComplete()).isTrue();
    assertThat(catalog.obstacles()).isEmpty();
    assertThat(catalog.experts()).isEqualTo(4);
    assertThat(group.members().stream().map(ExpertGroup.Member::input))
        .containsExactlyElementsOf(spec.tensors().stream().map(QMoeTensor::input).toList());
    assertThat(group.members()).allMatch(member -> member.location().equals("weights.bin"));
    assertThat(group.members()).allMatch(member -> member.region().expert() == 3);
    assertThat(group.bytes()).isEqualTo(spec.bytesPerExpert()).isEqualTo(catalog.groupBytes());
    for (ExpertGroup.Member member : group.members()) {
      assertThat(member.region().length()).isEqualTo(spec.bytesPerExpert(member.input()));
    }
  }

  @Test
  void groupsPartitionTheFileWhateverTheGeometry() {
    Random random = new Random(20260103);
    for (int i = 0; i < 300; i++) {
      QMoeNodes nodes = randomNodes(random);
      GraphNode node = nodes.node();
      QMoeSpec spec = spec(node);
      QMoeCatalog catalog = QMoeCatalog.of(spec, node);

      List<ExpertRegion> regions = new ArrayList<>();
      for (int expert = 0; expert < spec.experts(); expert++) {
        ExpertGroup group = catalog.group(expert);
        assertThat(group.bytes()).isEqualTo(spec.bytesPerExpert());
        group.members().forEach(member -> regions.add(member.region()));
      }
      regions.sort(Comparator.comparingLong(ExpertRegion::offset));

      List<ConstantData.External> tensors = externals(node);
      long end = tensors.getFirst().offset();
      for (ExpertRegion region : regions) {
        assertThat(region.offset()).as("contiguous and disjoint").isEqualTo(end);
        end += region.length();
      }
      assertThat(end)
          .as("covering")
          .isEqualTo(tensors.getLast().offset() + tensors.getLast().byteLength());
    }
  }

  @Test
  void oneInlineTensorMakesTheCatalogIncomplete() {
    QMoeNodes nodes = QMoeNodes.blockWise().with(OPTIONAL_TENSORS).inline(QMoeInput.FC2_BIAS);
    QMoeCatalog catalog = QMoeCatalog.of(spec(nodes.node()), nodes.node());

    assertThat(catalog.isComplete()).isFalse();
    assertThat(catalog.obstacles())
        .containsExactly(
            new QMoeCatalog.Obstacle(
                QMoeInput.FC2_BIAS, "moe.fc2_experts_bias", new InlineTensor()));
    assertThat(catalog.obstacles().getFirst().text())
        .startsWith("fc2_experts_bias 'moe.fc2_experts_bias': ");
    assertThatThrownBy(() -> catalog.group(0))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("fc2_experts_bias");
    assertThatThrownBy(catalog::groupBytes).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void perChannelNodesHaveACatalog() {
    QMoeNodes nodes = QMoeNodes.perChannel().with(OPTIONAL_TENSORS);
    QMoeCatalog catalog = QMoeCatalog.of(spec(nodes.node()), nodes.node());

    WeightRegionCatalog scales = regions(catalog, QMoeInput.FC1_SCALES);
    WeightRegionCatalog zeroPoints = regions(catalog, QMoeInput.FC1_ZERO_POINTS);

    assertThat(catalog.isComplete()).isTrue();
    assertThat(scales.layout().quantization()).contains(new ExpertQuantization(4, 64, 1));
    assertThat(scales.bytesPerExpert()).isEqualTo(96 * 4);
    assertThat(zeroPoints.bytesPerExpert()).isEqualTo(48);
  }

  @Test
  void theQuantizationIsThatOfTheLayer() {
    QMoeNodes nodes = QMoeNodes.blockWise().with(OPTIONAL_TENSORS);
    QMoeCatalog catalog = QMoeCatalog.of(spec(nodes.node()), nodes.node());

    for (QMoeInput input :
        List.of(QMoeInput.FC2_WEIGHTS, QMoeInput.FC2_SCALES, QMoeInput.FC2_ZERO_POINTS)) {
      assertThat(regions(catalog, input).layout().quantization())
          .contains(new ExpertQuantization(4, 32, 3));
    }
    assertThat(regions(catalog, QMoeInput.FC2_BIAS).layout().quantization()).isEmpty();
  }

  @Test
  void thereIsNoGroupBeyondTheLastExpert() {
    GraphNode node = QMoeNodes.blockWise().node();
    QMoeCatalog catalog = QMoeCatalog.of(spec(node), node);

    assertThatThrownBy(() -> catalog.group(4)).isInstanceOf(IndexOutOfBoundsException.class);
    assertThatThrownBy(() -> catalog.group(-1)).isInstanceOf(IndexOutOfBoundsException.class);
  }

  private static QMoeNodes randomNodes(Random random) {
    int bits = List.of(2, 4, 8).get(random.nextInt(3));
    int pack = 8 / bits;
    QMoeNodes.Geometry geometry =
        new QMoeNodes.Geometry()
            .bits(bits)
            .experts(1 + random.nextInt(9))
            .hidden((33 + random.nextInt(100)) * (long) pack)
            .inter((33 + random.nextInt(100)) * (long) pack)
            .blockSize(random.nextBoolean() ? 0 : 16L << random.nextInt(2))
            .types(
                ElementType.FLOAT16,
                random.nextBoolean() ? ElementType.FLOAT : ElementType.FLOAT16);
    boolean fused = random.nextBoolean();
    QMoeNodes nodes = (fused ? geometry.fusedSwiglu() : geometry).build();
    if (!fused && random.nextBoolean()) {
      nodes.with(QMoeInput.FC3_WEIGHTS, QMoeInput.FC3_SCALES, QMoeInput.FC3_ZERO_POINTS);
    }
    for (QMoeInput input : OPTIONAL_TENSORS) {
      if (random.nextBoolean()) {
        nodes.with(input);
      }
    }
    return nodes;
  }

  private static List<ConstantData.External> externals(GraphNode node) {
    List<ConstantData.External> result = new ArrayList<>();
    for (QMoeInput input : QMoeInput.values()) {
      if (node.input(input.slot()).flatMap(value -> value.constant()).orElse(null)
          instanceof ConstantData.External external) {
        result.add(external);
      }
    }
    result.sort(Comparator.comparingLong(ConstantData.External::offset));
    return result;
  }

  private static WeightRegionCatalog regions(QMoeCatalog catalog, QMoeInput input) {
    return catalog.tensors().stream()
        .filter(entry -> entry.input() == input)
        .findFirst()
        .map(QMoeCatalog.Entry::regions)
        .orElseThrow();
  }

  private static QMoeSpec spec(GraphNode node) {
    return Optional.of(QMoeSpecs.read(node, RoutingSemantics.ORT_CPU))
        .filter(Supported.class::isInstance)
        .map(Supported.class::cast)
        .orElseThrow()
        .spec();
  }
}
