package dev.expertbank.model;

import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.TensorShape;

/**
 * A tensor stored with the model.
 *
 * @param overridable a caller of the graph may replace it, since it is a graph input as well (from
 *     IR version 4 on), so it is not a constant
 */
public record OnnxInitializer(
    String name,
    ElementType elementType,
    TensorShape shape,
    ConstantData data,
    boolean overridable) {}
