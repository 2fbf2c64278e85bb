package dev.expertbank.spi;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** The options of one session, parsed and checked once. */
public final class ProviderOptions {
  private final Map<OptionSpec<?>, Object> values;

  private ProviderOptions(Map<OptionSpec<?>, Object> values) {
    this.values = values;
  }

  /**
   * Parses the option texts of one session.
   *
   * @param text option texts by key; keys that are missing take their default
   * @throws EpException {@code options.unknown-key} or {@code options.bad-value}, listing what is
   *     valid
   */
  public static ProviderOptions parse(List<OptionSpec<?>> specs, Map<String, String> text) {
    Map<String, String> remaining = new TreeMap<>(text);
    Map<OptionSpec<?>, Object> values = new HashMap<>();
    for (OptionSpec<?> spec : specs) {
      String given = remaining.remove(spec.key());
      String effective = given == null ? spec.defaultText() : given;
      try {
        values.put(spec, spec.parser().apply(effective));
      } catch (IllegalArgumentException e) {
        throw new EpException(
            "options.bad-value",
            "option " + spec.key() + ": '" + effective + "' is not valid; use " + spec.valid(),
            e);
      }
    }
    if (!remaining.isEmpty()) {
      throw new EpException(
          "options.unknown-key",
          "unknown option '"
              + String.join("', '", remaining.keySet())
              + "'; valid options are "
              + specs.stream().map(OptionSpec::key).sorted().collect(Collectors.joining(", ")));
    }
    return new ProviderOptions(Map.copyOf(values));
  }

  /** The value of an option that was among the specs given to {@link #parse}. */
  @SuppressWarnings("unchecked") // parse() put the value that this spec's own parser returned
  public <T> T get(OptionSpec<T> spec) {
    Object value = values.get(spec);
    if (value == null) {
      throw new IllegalArgumentException("option " + spec.key() + " was not declared");
    }
    return (T) value;
  }
}
