package dev.expertbank.spi.qmoe;

import dev.expertbank.spi.TensorShape;
import dev.expertbank.spi.qmoe.QMoeInput.Role;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * Checks the shapes that follow from a node's sizes: scales, zero points, biases, router.
 *
 * <p>A node is block-wise when some layer has more than one block; then every layer's scales are
 * {@code [E, N, blocks]} and its zero points {@code [E, N, ceil(blocks/pack)]}, with blocks =
 * ceil(K/block_size). Otherwise, also when a single block spans every row, scales are {@code [E,
 * N]} or {@code [E, N, 1]} and zero points {@code [E, N/pack]}.
 *
 * @param blockSize 0 unless the node is block-wise
 */
record QMoeShapes(QMoeOperands operands, QMoeGeometry geometry, int pack, int blockSize) {

  static QMoeShapes of(QMoeOperands operands, QMoeGeometry geometry, QMoeAttributes attributes) {
    int widest = Math.max(geometry.hidden(), geometry.inter());
    int blockSize = attributes.blockSize() < widest ? attributes.blockSize() : 0;
    return new QMoeShapes(operands, geometry, 8 / attributes.bits(), blockSize);
  }

  /**
   * Checks them all, in the order of {@link QMoeSpecs#read}.
   *
   * @throws Refusal {@code qmoe.scales}, {@code qmoe.zero-points}, {@code qmoe.bias}, {@code
   *     qmoe.experts}, {@code qmoe.shape}
   */
  void check() {
    for (Fc fc : Fc.values()) {
      check("qmoe.scales", QMoeInput.of(fc, Role.SCALES), scales(fc));
    }
    for (Fc fc : Fc.values()) {
      check("qmoe.zero-points", QMoeInput.of(fc, Role.ZERO_POINTS), List.of(zeroPoints(fc)));
    }
    for (Fc fc : Fc.values()) {
      check("qmoe.bias", QMoeInput.of(fc, Role.BIAS), List.of(perRow(fc)));
    }
    checkRouter(QMoeInput.ROUTER_PROBS);
    checkRouter(QMoeInput.ROUTER_WEIGHTS);
    checkInput();
  }

  int blocks(Fc fc) {
    return blockSize == 0 ? 1 : Math.ceilDiv(geometry.reduction(fc), blockSize);
  }

  private List<TensorShape> scales(Fc fc) {
    TensorShape blockWise = TensorShape.of(geometry.experts(), geometry.rows(fc), blocks(fc));
    return blockSize == 0 ? List.of(perRow(fc), blockWise) : List.of(blockWise);
  }

  private TensorShape zeroPoints(Fc fc) {
    long rows = geometry.rows(fc);
    // Rows are a multiple of pack, as hidden and intermediate size are.
    return blockSize == 0
        ? TensorShape.of(geometry.experts(), rows / pack)
        : TensorShape.of(geometry.experts(), rows, Math.ceilDiv(blocks(fc), pack));
  }

  private TensorShape perRow(Fc fc) {
    return TensorShape.of(geometry.experts(), geometry.rows(fc));
  }

  private void check(String code, QMoeInput input, List<TensorShape> expected) {
    if (!operands.has(input)) {
      return;
    }
    TensorShape actual = operands.shape(input);
    if (!expected.contains(actual)) {
      String scheme =
          blockSize == 0 ? " with one scale per output row" : " with blocks of " + blockSize;
      throw new Refusal(
          code,
          operands.label(input)
              + " has shape "
              + QMoeOperands.text(actual)
              + "; it must be "
              + expected.stream().map(TensorShape::toString).collect(Collectors.joining(" or "))
              + (input.role() == Role.BIAS ? "" : scheme));
    }
  }

  private void checkRouter(QMoeInput input) {
    Optional<TensorShape> shape =
        operands.has(input) ? operands.value(input).shape() : Optional.empty();
    if (shape.isEmpty()) {
      return;
    }
    boolean fits =
        shape.get().rank() == 2
            && (shape.get().lastDim() == geometry.experts()
                || shape.get().lastDim() == TensorShape.DYNAMIC);
    if (!fits) {
      throw wrongShape(input, "[tokens, " + geometry.experts() + "]");
    }
  }

  private void checkInput() {
    TensorShape input = operands.value(QMoeInput.INPUT).shape().orElse(TensorShape.of());
    for (QMoeInput router : List.of(QMoeInput.ROUTER_PROBS, QMoeInput.ROUTER_WEIGHTS)) {
      if (!operands.has(router)) {
        continue;
      }
      Optional<TensorShape> shape = operands.value(router).shape();
      if (input.rank() > 0
          && shape.isPresent()
          && shape.get().dim(0) != TensorShape.DYNAMIC
          && isKnownNotToBe(shape.get().dim(0), input)) {
        throw wrongShape(
            router, "one row for each token of " + operands.label(QMoeInput.INPUT) + " " + input);
      }
    }
  }

  private static boolean isKnownNotToBe(long rows, TensorShape input) {
    long[] dims = Arrays.copyOf(input.toArray(), input.rank() - 1);
    TensorShape tokens = TensorShape.of(dims);
    try {
      return tokens.isStatic() && tokens.elementCount() != rows;
    } catch (ArithmeticException _) {
      return true;
    }
  }

  private Refusal wrongShape(QMoeInput input, String expected) {
    return new Refusal(
        "qmoe.shape",
        operands.label(input)
            + " has shape "
            + QMoeOperands.text(operands.value(input).shape())
            + "; it must be "
            + expected);
  }
}
