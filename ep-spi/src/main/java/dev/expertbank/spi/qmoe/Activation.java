package dev.expertbank.spi.qmoe;

import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;

/** The values of attribute {@code activation_type}. */
public enum Activation {
  RELU,
  /** The tanh approximation. */
  GELU,
  SILU,
  SWIGLU,
  IDENTITY;

  /** The attribute's text, such as {@code swiglu}. */
  public String schemaName() {
    return name().toLowerCase(Locale.ROOT);
  }

  static Optional<Activation> ofSchemaName(String text) {
    return Arrays.stream(values()).filter(a -> a.schemaName().equals(text)).findFirst();
  }

  static String schemaNames() {
    return Arrays.stream(values()).map(Activation::schemaName).collect(Collectors.joining(", "));
  }
}
