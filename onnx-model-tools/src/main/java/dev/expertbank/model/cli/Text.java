package dev.expertbank.model.cli;

import dev.expertbank.model.ValueInfo;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.Printable;
import dev.expertbank.spi.qmoe.WeightLayout;
import java.util.Locale;
import java.util.stream.Collectors;

/** Numbers and names as tables show them. */
public final class Text {
  private static final int MAX_NAME_CHARACTERS = 60;
  private static final int MAX_DIMENSIONS = 8;
  private static final String[] IEC = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  private static final String[] SI = {"", " k", " M", " G", " T", " P", " E"};

  private Text() {}

  /** A name from a file, escaped and limited in length. */
  public static String name(String name) {
    return Printable.escape(name, MAX_NAME_CHARACTERS);
  }

  /** For example {@code 427.69 MiB}. */
  public static String bytes(long bytes) {
    return scaled(bytes, 1024, 2, IEC, " ");
  }

  /** For example {@code 20.91 G}. */
  public static String count(long count) {
    return scaled(count, 1000, 2, SI, "");
  }

  private static String scaled(long value, int base, int digits, String[] units, String separator) {
    double scaled = value;
    int unit = 0;
    while (scaled >= base && unit < units.length - 1) {
      scaled /= base;
      unit++;
    }
    String number =
        unit == 0 ? Long.toString(value) : String.format(Locale.ROOT, "%." + digits + "f", scaled);
    return number + separator + units[unit];
  }

  /** For example {@code float16}. */
  static String type(ElementType type) {
    return type.name().toLowerCase(Locale.ROOT);
  }

  /** {@code plain} or {@code sm80}. */
  static String layout(WeightLayout layout) {
    return layout.name().toLowerCase(Locale.ROOT);
  }

  /** For example {@code [tokens, 2880]}, or {@code [...]} when the rank is unknown. */
  static String shape(ValueInfo value) {
    return value
        .dims()
        .map(
            dims ->
                dims.stream()
                        .limit(MAX_DIMENSIONS)
                        .map(d -> name(d.toString()))
                        .collect(Collectors.joining(", ", "[", ""))
                    + (dims.size() > MAX_DIMENSIONS ? ", ...]" : "]"))
        .orElse("[...]");
  }
}
