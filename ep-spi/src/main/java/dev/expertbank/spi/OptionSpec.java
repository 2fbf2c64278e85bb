package dev.expertbank.spi;

import java.util.List;
import java.util.Locale;
import java.util.function.Function;

/**
 * One provider option: its key, what is valid, and how text becomes a value.
 *
 * @param valid what is valid, in words, for the error message
 * @param parser throws {@link IllegalArgumentException} for text that is not valid
 */
public record OptionSpec<T>(
    String key, String valid, String defaultText, String description, Function<String, T> parser) {

  /** An option with a fixed set of values, matched exactly. */
  public static OptionSpec<String> choice(
      String key, List<String> values, String defaultText, String description) {
    return new OptionSpec<>(
        key,
        "one of " + String.join(", ", values),
        defaultText,
        description,
        text -> {
          if (!values.contains(text)) {
            throw new IllegalArgumentException(text);
          }
          return text;
        });
  }

  /** An option whose values are the constants of an enum, written {@code like-this}. */
  public static <E extends Enum<E>> OptionSpec<E> choice(
      String key, Class<E> type, E defaultValue, String description) {
    List<E> values = List.of(type.getEnumConstants());
    return new OptionSpec<>(
        key,
        "one of " + String.join(", ", values.stream().map(OptionSpec::text).toList()),
        text(defaultValue),
        description,
        text ->
            values.stream()
                .filter(v -> text(v).equals(text))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(text)));
  }

  private static String text(Enum<?> constant) {
    return constant.name().toLowerCase(Locale.ROOT).replace('_', '-');
  }
}
