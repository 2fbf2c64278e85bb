package dev.expertbank.ort;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * C function types in the notation of the slot table: the result, then the parameters, for example
 * {@code P(P,P,J)}. P address, I 32-bit integer, J 64-bit integer, Z boolean, V void. Addresses
 * travel as {@code long}: no segment object is made for pointers that are only passed on.
 */
final class Signature {
  private Signature() {}

  static FunctionDescriptor descriptor(String text) {
    int open = text.indexOf('(');
    String parameters = text.substring(open + 1, text.length() - 1);
    MemoryLayout[] layouts =
        parameters.isEmpty()
            ? new MemoryLayout[0]
            : Arrays.stream(parameters.split(","))
                .map(Signature::layout)
                .toArray(MemoryLayout[]::new);
    String result = text.substring(0, open);
    return result.equals("V")
        ? FunctionDescriptor.ofVoid(layouts)
        : FunctionDescriptor.of(layout(result), layouts);
  }

  private static MemoryLayout layout(String code) {
    return switch (code) {
      case "P", "J" -> ValueLayout.JAVA_LONG;
      case "I" -> ValueLayout.JAVA_INT;
      case "Z" -> ValueLayout.JAVA_BOOLEAN;
      default -> throw new IllegalArgumentException("unknown type code " + code);
    };
  }
}
