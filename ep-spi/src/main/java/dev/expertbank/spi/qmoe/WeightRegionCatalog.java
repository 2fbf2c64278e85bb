package dev.expertbank.spi.qmoe;

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
import dev.expertbank.spi.qmoe.Pageability.Pageable;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;

/**
 * Where each expert's bytes of one tensor are, or why they cannot be told apart.
 *
 * <p>An expert takes {@code bytes(elementType, rows · storage)} bytes and expert e starts at {@code
 * tensorOffset + e · bytesPerExpert}: bits, block size and packing are already in the physical
 * shape. Regions are computed when asked for, so a tensor that claims many experts costs nothing.
 *
 * @param location of the external file as the model states it; empty for an inline tensor
 * @param tensorOffset first byte of the tensor in that file; 0 for an inline tensor
 * @param bytesPerExpert 0 unless pageable
 */
public record WeightRegionCatalog(
    Optional<String> location,
    long tensorOffset,
    long tensorLength,
    ElementType elementType,
    ExpertTensorLayout layout,
    long bytesPerExpert,
    Pageability pageability) {
  private static final Set<Integer> BIT_WIDTHS = Set.of(1, 2, 4, 8);

  /**
   * Classifies a tensor. The first of these that applies is the reason for not being pageable:
   * inline data, layout version, storage order, shape, quantisation, the number of elements of an
   * expert, its bytes, the bytes of all experts (all {@link Range}), the external length, the
   * external range, no experts, more experts than can be numbered.
   *
   * @param shape of the tensor; {@code [experts, rows]} is read as {@code [experts, rows, 1]}
   */
  public static WeightRegionCatalog classify(
      ExpertTensorLayout layout, TensorShape shape, ElementType elementType, ConstantData data) {
    Optional<NonPageableReason> reason =
        switch (data) {
          case ConstantData.Inline _ -> Optional.of(new InlineTensor());
          case ConstantData.External external ->
              describe(layout, shape).or(() -> measure(layout, elementType, external));
        };
    return new WeightRegionCatalog(
        data instanceof ConstantData.External e ? Optional.of(e.location()) : Optional.empty(),
        data instanceof ConstantData.External e ? e.offset() : 0,
        data.byteLength(),
        elementType,
        layout,
        reason.isPresent() ? 0 : data.byteLength() / layout.experts(),
        reason.<Pageability>map(NonPageable::new).orElseGet(Pageable::new));
  }

  /** Whether every expert has a region. */
  public boolean isPageable() {
    return pageability instanceof Pageable;
  }

  /** Bytes of the file that all regions cover together; 0 when not pageable. */
  public long mappedBytes() {
    return isPageable() ? tensorLength : 0;
  }

  /**
   * The expert's range in the file.
   *
   * @throws IllegalStateException if the tensor is not pageable
   * @throws IndexOutOfBoundsException if there is no such expert
   */
  public ExpertRegion region(int expert) {
    ExpertRegion relative = relativeRange(expert);
    return new ExpertRegion(expert, tensorOffset + relative.offset(), relative.length());
  }

  /**
   * The expert's range relative to the tensor's first byte.
   *
   * @throws IllegalStateException if the tensor is not pageable
   * @throws IndexOutOfBoundsException if there is no such expert
   */
  public ExpertRegion relativeRange(int expert) {
    if (pageability instanceof NonPageable(NonPageableReason reason)) {
      throw new IllegalStateException("no expert has a region: " + reason.text());
    }
    Objects.checkIndex(expert, layout.experts());
    return new ExpertRegion(expert, expert * bytesPerExpert, bytesPerExpert);
  }

  /** All ranges in the file, by expert; empty when not pageable. */
  public List<ExpertRegion> regions() {
    return isPageable()
        ? IntStream.range(0, (int) layout.experts()).mapToObj(this::region).toList()
        : List.of();
  }

  private static Optional<NonPageableReason> describe(
      ExpertTensorLayout layout, TensorShape shape) {
    if (layout.version() != ExpertTensorLayout.VERSION) {
      return Optional.of(new UnsupportedLayoutVersion(layout.version()));
    }
    if (layout.order() != ExpertStorageOrder.EXPERT_MAJOR) {
      return Optional.of(new NotExpertMajor());
    }
    TensorShape expected =
        TensorShape.of(layout.experts(), layout.rowsPerExpert(), layout.storageElementsPerRow());
    TensorShape actual = shape.rank() == 2 ? TensorShape.of(shape.dim(0), shape.dim(1), 1) : shape;
    if (!actual.isStatic() || !actual.equals(expected)) {
      return Optional.of(new ShapeMismatch(expected, shape));
    }
    return layout
        .quantization()
        .filter(q -> !BIT_WIDTHS.contains(q.bits()) || q.blockSize() <= 0 || q.blocksPerRow() <= 0)
        .map(InvalidQuantization::new);
  }

  private static Optional<NonPageableReason> measure(
      ExpertTensorLayout layout, ElementType elementType, ConstantData.External data) {
    long rows = layout.rowsPerExpert();
    long storage = layout.storageElementsPerRow();
    String step = "the elements of an expert, " + rows + " rows of " + storage + ",";
    long total;
    try {
      long elements = Math.multiplyExact(rows, storage);
      if (elementType.bits() == 0) {
        return range("elements of type " + elementType + " have no fixed size");
      }
      step = "the bytes of an expert, " + elements + " elements of " + elementType + ",";
      long bytesPerExpert = elementType.bytes(elements);
      step = "the bytes of " + layout.experts() + " experts of " + bytesPerExpert;
      total = Math.multiplyExact(layout.experts(), bytesPerExpert);
    } catch (ArithmeticException _) {
      return range(step + " are too many to be counted");
    }
    if (total != data.byteLength()) {
      return Optional.of(new ExternalLengthMismatch(total, data.byteLength()));
    }
    if (data.offset() < 0 || data.offset() > Long.MAX_VALUE - total) {
      return range(total + " bytes from offset " + data.offset() + " lie in no file");
    }
    if (layout.experts() == 0) {
      return Optional.of(new NoExperts());
    }
    return layout.experts() > Integer.MAX_VALUE
        ? range(layout.experts() + " experts are more than can be numbered")
        : Optional.empty();
  }

  private static Optional<NonPageableReason> range(String text) {
    return Optional.of(new Range(text));
  }
}
