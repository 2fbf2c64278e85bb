package dev.expertbank.spi;

import java.util.List;

/** The value of a node attribute. */
public sealed interface AttributeValue {
  record IntValue(long value) implements AttributeValue {}

  record FloatValue(float value) implements AttributeValue {}

  record StringValue(String value) implements AttributeValue {}

  record Ints(List<Long> values) implements AttributeValue {
    public Ints {
      values = List.copyOf(values);
    }
  }

  record Floats(List<Float> values) implements AttributeValue {
    public Floats {
      values = List.copyOf(values);
    }
  }

  record Strings(List<String> values) implements AttributeValue {
    public Strings {
      values = List.copyOf(values);
    }
  }

  /** A graph, tensor or any other type that providers are not given the value of. */
  record Opaque(String typeName) implements AttributeValue {}
}
