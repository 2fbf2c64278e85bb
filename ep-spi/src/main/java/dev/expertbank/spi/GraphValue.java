package dev.expertbank.spi;

import java.util.Optional;

/**
 * A node's input or output.
 *
 * @param shape empty when the rank is unknown
 * @param constant present for a constant initializer: one that no caller can override
 */
public record GraphValue(
    String name,
    ElementType elementType,
    Optional<TensorShape> shape,
    Optional<ConstantData> constant) {}
