package dev.expertbank.spi.qmoe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.TensorShape;
import dev.expertbank.spi.qmoe.NonPageableReason.ExternalLengthMismatch;
import dev.expertbank.spi.qmoe.NonPageableReason.InlineTensor;
import dev.expertbank.spi.qmoe.NonPageableReason.InvalidQuantization;
import dev.expertbank.spi.qmoe.NonPageableReason.NoExperts;
import dev.expertbank.spi.qmoe.NonPageableReason.NotExpertMajor;
import dev.expertbank.spi.qmoe.NonPageableReason.Range;
import dev.expertbank.spi.qmoe.NonPageableReason.ShapeMismatch;
import dev.expertbank.spi.qmoe.NonPageableReason.UnsupportedLayoutVersion;
import dev.expertbank.spi.qmoe.Pageability.NonPageable;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class WeightRegionCatalogTest {
  private static final TensorShape SHAPE = TensorShape.of(4, 96, 32);
  private static final long BYTES = 4 * 96 * 32;
  private static final ExpertQuantization INT4 = new ExpertQuantization(4, 32, 2);

  @Test
  void everyExpertHasItsRange() {
    WeightRegionCatalog catalog = classify(layout(), SHAPE, external(5000, BYTES));

    assertThat(catalog.pageability()).isEqualTo(new Pageability.Pageable());
    assertThat(catalog.location()).contains("weights.bin");
    assertThat(catalog.bytesPerExpert()).isEqualTo(3072);
    assertThat(catalog.mappedBytes()).isEqualTo(BYTES);
    assertThat(catalog.region(2)).isEqualTo(new ExpertRegion(2, 5000 + 2 * 3072, 3072));
    assertThat(catalog.relativeRange(2)).isEqualTo(new ExpertRegion(2, 2 * 3072, 3072));
    assertThat(catalog.regions()).hasSize(4).endsWith(catalog.region(3));
  }

  @Test
  void regionsPartitionTheTensorWhateverItsGeometry() {
    Random random = new Random(20260102);
    ElementType[] types = {
      ElementType.UINT8, ElementType.FLOAT16, ElementType.FLOAT, ElementType.DOUBLE
    };
    for (int i = 0; i < 500; i++) {
      TensorShape shape =
          random.nextBoolean()
              ? TensorShape.of(
                  1 + random.nextInt(40), 1 + random.nextInt(5000), 1 + random.nextInt(300))
              : TensorShape.of(1 + random.nextInt(40), 1 + random.nextInt(5000));
      ElementType type = types[random.nextInt(types.length)];
      long length = type.bytes(shape.elementCount());
      long offset = random.nextLong(1L << 50);

      WeightRegionCatalog catalog =
          WeightRegionCatalog.classify(
              ExpertTensorLayout.expertMajor(shape, Optional.empty()),
              shape,
              type,
              external(offset, length));

      assertThat(catalog.regions()).hasSize((int) shape.dim(0));
      long end = offset;
      for (ExpertRegion region : catalog.regions()) {
        assertThat(region.offset()).as("contiguous and disjoint").isEqualTo(end);
        assertThat(catalog.relativeRange(region.expert()).offset())
            .isEqualTo(region.offset() - offset);
        end += region.length();
      }
      assertThat(end).as("covering").isEqualTo(offset + length);
    }
  }

  @Test
  void aTensorOfRankTwoHasOneElementPerRow() {
    TensorShape bias = TensorShape.of(4, 96);
    ExpertTensorLayout layout = ExpertTensorLayout.expertMajor(bias, Optional.empty());

    WeightRegionCatalog catalog =
        WeightRegionCatalog.classify(layout, bias, ElementType.FLOAT, external(0, 4 * 96 * 4));

    assertThat(layout.storageElementsPerRow()).isEqualTo(1);
    assertThat(catalog.region(1)).isEqualTo(new ExpertRegion(1, 384, 384));
  }

  @Test
  void inlineDataComesFirst() {
    WeightRegionCatalog catalog =
        classify(
            layout(2, 4, 96, 32, ExpertStorageOrder.INTERLEAVED, INT4),
            SHAPE,
            new ConstantData.Inline(7, target -> {}));

    assertThat(reason(catalog)).isEqualTo(new InlineTensor());
    assertThat(catalog.location()).isEmpty();
    assertThat(catalog.tensorOffset()).isZero();
    assertThat(catalog.tensorLength()).isEqualTo(7);
    assertThat(catalog.mappedBytes()).isZero();
    assertThat(catalog.regions()).isEmpty();
  }

  @Test
  void theReasonsHaveAFixedOrder() {
    ExpertQuantization bad = new ExpertQuantization(3, 0, 0);
    TensorShape other = TensorShape.of(4, 96, 31);
    ConstantData.External wrong = external(Long.MAX_VALUE, BYTES + 1);

    assertThat(reason(classify(interleaved(2, bad), other, wrong)))
        .isEqualTo(new UnsupportedLayoutVersion(2));
    assertThat(reason(classify(interleaved(1, bad), other, wrong))).isEqualTo(new NotExpertMajor());
    assertThat(reason(classify(layout(bad), other, wrong)))
        .isEqualTo(new ShapeMismatch(SHAPE, other));
    assertThat(reason(classify(layout(bad), SHAPE, wrong))).isEqualTo(new InvalidQuantization(bad));
    assertThat(reason(classify(layout(), SHAPE, wrong)))
        .isEqualTo(new ExternalLengthMismatch(BYTES, BYTES + 1));
    assertThat(reason(classify(layout(), SHAPE, external(Long.MAX_VALUE, BYTES))))
        .isInstanceOf(Range.class);
  }

  @ParameterizedTest
  @CsvSource({"0,32,2", "3,32,2", "16,32,2", "4,0,2", "4,-32,2", "4,32,0"})
  void quantizationsThatCannotBe(int bits, long blockSize, long blocksPerRow) {
    ExpertQuantization quantization = new ExpertQuantization(bits, blockSize, blocksPerRow);

    assertThat(reason(classify(layout(quantization), SHAPE, external(0, BYTES))))
        .isEqualTo(new InvalidQuantization(quantization));
  }

  @ParameterizedTest
  @CsvSource({
    "1,4294967296,4294967296,elements of an expert", // 2^64
    "0,4294967296,4294967296,elements of an expert", // masked by a zero
    "1,4611686018427387904,1,bytes of an expert", // 2^62 elements of 4 bytes
    "4611686018427387904,1,1,bytes of 4611686018427387904 experts",
  })
  void productsThatOverflow(long experts, long rows, long storage, String text) {
    TensorShape shape = TensorShape.of(experts, rows, storage);
    WeightRegionCatalog catalog =
        WeightRegionCatalog.classify(
            ExpertTensorLayout.expertMajor(shape, Optional.empty()),
            shape,
            ElementType.FLOAT,
            external(0, 0));

    assertThat(reason(catalog)).isInstanceOf(Range.class);
    assertThat(reason(catalog).text()).contains(text);
  }

  @ParameterizedTest
  @CsvSource({"-1,false", "9223372036854763520,false", "9223372036854763519,true"})
  void theRangeEndsWithinTheLargestFile(long offset, boolean pageable) {
    assertThat(classify(layout(), SHAPE, external(offset, BYTES)).isPageable()).isEqualTo(pageable);
  }

  @Test
  void noExpertsAndTooMany() {
    TensorShape none = TensorShape.of(0, 96, 32);
    TensorShape many = TensorShape.of(1L << 40, 1, 0);

    assertThat(reason(uint8(none, 0))).isEqualTo(new NoExperts());
    assertThat(reason(uint8(many, 0)).text()).contains("1099511627776 experts");
  }

  @Test
  void typesWithoutASizeAndDynamicShapesAreNotPageable() {
    WeightRegionCatalog strings =
        WeightRegionCatalog.classify(layout(), SHAPE, ElementType.STRING, external(0, BYTES));
    TensorShape dynamic = TensorShape.of(-1, 96, 32);
    ExpertTensorLayout dynamicLayout = ExpertTensorLayout.expertMajor(dynamic, Optional.empty());

    assertThat(reason(strings).text()).contains("STRING");
    assertThat(reason(classify(dynamicLayout, dynamic, external(0, BYTES))))
        .isInstanceOf(ShapeMismatch.class);
  }

  @Test
  void packedElementsThatShareAByteBetweenExpertsAreNotPageable() {
    TensorShape odd = TensorShape.of(2, 1, 3);
    WeightRegionCatalog catalog =
        WeightRegionCatalog.classify(
            ExpertTensorLayout.expertMajor(odd, Optional.empty()),
            odd,
            ElementType.UINT4,
            external(0, ElementType.UINT4.bytes(odd.elementCount())));

    assertThat(reason(catalog)).isEqualTo(new ExternalLengthMismatch(4, 3));
  }

  @Test
  void askingForARegionThatIsNotThere() {
    WeightRegionCatalog pageable = classify(layout(), SHAPE, external(0, BYTES));
    WeightRegionCatalog not = classify(layout(), SHAPE, external(0, 1));

    assertThatThrownBy(() -> pageable.region(4)).isInstanceOf(IndexOutOfBoundsException.class);
    assertThatThrownBy(() -> pageable.region(-1)).isInstanceOf(IndexOutOfBoundsException.class);
    assertThatThrownBy(() -> not.region(0))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("12288 bytes");
  }

  @Test
  void everyReasonIsASentence() {
    List<NonPageableReason> reasons =
        List.of(
            new InlineTensor(),
            new UnsupportedLayoutVersion(7),
            new NotExpertMajor(),
            new ShapeMismatch(SHAPE, TensorShape.of(new long[1000])),
            new InvalidQuantization(new ExpertQuantization(3, 5, 6)),
            new Range("too far"),
            new ExternalLengthMismatch(8, 9),
            new NoExperts());

    assertThat(reasons).extracting(NonPageableReason::text).allMatch(text -> text.length() < 150);
    assertThat(reasons.get(1).text()).contains("7");
    assertThat(reasons.get(3).text()).contains("[4,96,32]").contains("rank 1000");
    assertThat(reasons.get(4).text()).contains("3 bits").contains("blocks of 5").contains("6");
    assertThat(reasons.get(6).text()).contains("8 bytes").contains("have 9");
  }

  private static NonPageableReason reason(WeightRegionCatalog catalog) {
    assertThat(catalog.pageability()).isInstanceOf(NonPageable.class);
    assertThat(catalog.isPageable()).isFalse();
    return ((NonPageable) catalog.pageability()).reason();
  }

  private static WeightRegionCatalog classify(
      ExpertTensorLayout layout, TensorShape shape, ConstantData data) {
    return WeightRegionCatalog.classify(layout, shape, ElementType.UINT8, data);
  }

  private static WeightRegionCatalog uint8(TensorShape shape, long length) {
    return classify(
        ExpertTensorLayout.expertMajor(shape, Optional.empty()), shape, external(0, length));
  }

  private static ExpertTensorLayout layout() {
    return layout(INT4);
  }

  private static ExpertTensorLayout layout(ExpertQuantization quantization) {
    return layout(1, 4, 96, 32, ExpertStorageOrder.EXPERT_MAJOR, quantization);
  }

  private static ExpertTensorLayout interleaved(int version, ExpertQuantization quantization) {
    return layout(version, 4, 96, 32, ExpertStorageOrder.INTERLEAVED, quantization);
  }

  private static ExpertTensorLayout layout(
      int version,
      long experts,
      long rows,
      long storage,
      ExpertStorageOrder order,
      ExpertQuantization quantization) {
    return new ExpertTensorLayout(
        version, experts, rows, storage, order, Optional.of(quantization));
  }

  private static ConstantData.External external(long offset, long length) {
    return new ConstantData.External("weights.bin", offset, length);
  }
}
