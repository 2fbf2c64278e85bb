package dev.expertbank.tests;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.spi.ElementType;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The grid is random; this keeps it from losing what it is there for. */
class GridCoverageTest {
  private static final List<RandomCase> CASES = ProviderGridTest.cases().toList();

  private static final Map<String, Predicate<MoeNode>> FEATURES =
      Map.ofEntries(
          Map.entry("zero rows", n -> rows(n) == 0),
          Map.entry("one row", n -> rows(n) == 1),
          Map.entry("70 rows", n -> rows(n) == 70),
          Map.entry("3-D input", n -> n.required(MoeNode.INPUT).rank() == 3),
          Map.entry("k = experts > 1", n -> experts(n) > 1 && n.integer("k", 1) == experts(n)),
          Map.entry("ties", GridCoverageTest::hasTies),
          Map.entry("masks", n -> any(n, MoeNode.ROUTER_PROBS, Double.NEGATIVE_INFINITY)),
          Map.entry("zero scales", n -> any(n, 3, 0)),
          Map.entry("negative scales", n -> min(n, 3) < 0),
          Map.entry("ragged blocks", GridCoverageTest::isRagged),
          Map.entry("odd rows with zero points", n -> n.input(12).isPresent() && width(n) % 2 == 1),
          Map.entry(
              "one-sided zero points", n -> n.input(11).isPresent() != n.input(12).isPresent()),
          Map.entry("fused, interleaved", n -> n.integer("swiglu_fusion", 0) == 1),
          Map.entry("fused, halves", n -> n.integer("swiglu_fusion", 0) == 2),
          Map.entry("swiglu with fc3", n -> n.input(8).isPresent() && isSwiglu(n)),
          Map.entry("another activation with fc3", n -> n.input(8).isPresent() && !isSwiglu(n)),
          Map.entry("negative router weights", n -> min(n, MoeNode.ROUTER_WEIGHTS) < 0),
          Map.entry("router weights of sum zero", GridCoverageTest::hasZeroSum),
          Map.entry("scales of another type", n -> n.required(3).type() != ioType(n)),
          Map.entry("float32", n -> ioType(n) == ElementType.FLOAT),
          Map.entry("float16", n -> ioType(n) == ElementType.FLOAT16),
          Map.entry("bfloat16", n -> ioType(n) == ElementType.BFLOAT16),
          Map.entry("2 bits", n -> n.integer("expert_weight_bits", 4) == 2),
          Map.entry("4 bits", n -> n.integer("expert_weight_bits", 4) == 4),
          Map.entry("8 bits", n -> n.integer("expert_weight_bits", 4) == 8));

  static Stream<String> features() {
    return FEATURES.keySet().stream().sorted();
  }

  @ParameterizedTest
  @MethodSource("features")
  void featureOccursWithBothRoutings(String feature) {
    Predicate<MoeNode> predicate = FEATURES.getOrDefault(feature, n -> false);
    Set<Routing> routings = new HashSet<>();
    for (RandomCase random : CASES) {
      if (predicate.test(random.node())) {
        routings.add(random.routing());
      }
    }
    assertThat(routings).containsExactlyInAnyOrder(Routing.ORT_CPU_QMOE, Routing.ORT_CUDA);
  }

  private static final Map<String, Predicate<MoeNode>> SM80_FEATURES =
      Map.ofEntries(
          Map.entry("4 bits", n -> n.integer("expert_weight_bits", 4) == 4),
          Map.entry("8 bits", n -> n.integer("expert_weight_bits", 4) == 8),
          Map.entry("plain shape", n -> n.required(5).dimension(1) == n.required(6).dimension(1)),
          Map.entry("transposed", n -> n.required(5).dimension(1) != n.required(6).dimension(1)),
          Map.entry("unstated", n -> n.integer("weights_prepacked", -1) == -1),
          Map.entry("one scale per row", n -> n.integer("block_size", 0) == 0),
          Map.entry("ragged blocks", GridCoverageTest::isRagged),
          Map.entry("zero points", n -> n.input(11).isPresent()),
          Map.entry("fused, interleaved", n -> n.integer("swiglu_fusion", 0) == 1),
          Map.entry("fused, halves", n -> n.integer("swiglu_fusion", 0) == 2),
          Map.entry("fc3", n -> n.input(8).isPresent()),
          Map.entry("one row", n -> rows(n) == 1),
          Map.entry("70 rows", n -> rows(n) == 70),
          Map.entry("float32", n -> ioType(n) == ElementType.FLOAT),
          Map.entry("float16", n -> ioType(n) == ElementType.FLOAT16),
          Map.entry("bfloat16", n -> ioType(n) == ElementType.BFLOAT16));

  @Test
  void everyFeatureOccursInTheLayoutOfCudaExports() {
    List<RandomCase> cases = Sm80SessionTest.randomCases().toList();
    SM80_FEATURES.forEach(
        (feature, predicate) ->
            assertThat(cases).as(feature).anyMatch(random -> predicate.test(random.node())));
  }

  private static int width(MoeNode node) {
    return node.required(MoeNode.INPUT).dimension(-1);
  }

  private static int rows(MoeNode node) {
    return node.required(MoeNode.ROUTER_PROBS).dimension(0);
  }

  private static int experts(MoeNode node) {
    return node.required(MoeNode.ROUTER_PROBS).dimension(-1);
  }

  private static ElementType ioType(MoeNode node) {
    return node.required(MoeNode.INPUT).type();
  }

  private static boolean isSwiglu(MoeNode node) {
    return node.text("activation_type", "relu").equals("swiglu");
  }

  private static boolean any(MoeNode node, int slot, double value) {
    return Arrays.stream(node.required(slot).values()).anyMatch(v -> v == value);
  }

  private static double min(MoeNode node, int slot) {
    return node.input(slot).stream()
        .flatMapToDouble(t -> Arrays.stream(t.values()))
        .min()
        .orElse(0);
  }

  private static boolean isRagged(MoeNode node) {
    TensorData scales = node.required(3);
    long blockSize = node.integer("block_size", 0);
    return scales.rank() == 3 && scales.dimension(2) > 1 && width(node) % blockSize != 0;
  }

  /** Whether in some row the last selected and the first unselected logit are equal. */
  private static boolean hasTies(MoeNode node) {
    double[] logits = node.required(MoeNode.ROUTER_PROBS).values();
    int experts = experts(node);
    int topK = (int) node.integer("k", 1);
    return topK < experts
        && IntStream.range(0, rows(node))
            .mapToObj(r -> Arrays.copyOfRange(logits, r * experts, (r + 1) * experts))
            .anyMatch(
                row -> {
                  Arrays.sort(row);
                  double selected = row[experts - topK];
                  return Double.isFinite(selected) && selected == row[experts - topK - 1];
                });
  }

  private static boolean hasZeroSum(MoeNode node) {
    return node.input(MoeNode.ROUTER_WEIGHTS).isPresent()
        && node.integer("normalize_routing_weights", 0) == 1
        && rows(node) > 0
        && ReferenceQMoe.evaluate(node, Routing.ORT_CPU_QMOE).routes().stream()
            .anyMatch(List::isEmpty);
  }
}
