package dev.expertbank.model;

import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.TensorShape;
import java.util.List;
import java.util.Optional;

/**
 * A declared graph input, output or intermediate value.
 *
 * @param elementType {@link ElementType#UNDEFINED} for sequences, maps and other values that are
 *     not tensors
 * @param dims empty when the rank is unknown
 */
public record ValueInfo(String name, ElementType elementType, Optional<List<Dimension>> dims) {
  public ValueInfo {
    dims = dims.map(List::copyOf);
  }

  /** The shape with every dimension that is not fixed as {@link TensorShape#DYNAMIC}. */
  public Optional<TensorShape> shape() {
    return dims.map(d -> TensorShape.of(d.stream().mapToLong(Dimension::size).toArray()));
  }
}
