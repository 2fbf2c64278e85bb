package dev.expertbank.qmoe.boundary;

import dev.expertbank.residency.ExpertKey;
import dev.expertbank.residency.PolicySettings.PinSettings;
import dev.expertbank.spi.ByteSize;
import dev.expertbank.spi.OptionSpec;
import dev.expertbank.spi.ProviderOptions;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalDouble;
import java.util.OptionalLong;

/** The options of the policies that pin experts. */
public final class PinOptions {
  private static final String NONE = "";

  private static final OptionSpec<List<ExpertKey>> KEYS =
      new OptionSpec<>(
          "residency.pin.keys",
          "experts such as 0:5,0:7,3:1, each layer:expert",
          NONE,
          "hot-set keeps these, whatever they take",
          PinOptions::keys);

  private static final OptionSpec<OptionalDouble> THRESHOLD =
      new OptionSpec<>(
          "residency.pin.threshold",
          "a part of the rows above 0 and up to 1",
          NONE,
          "hot-set keeps experts that at least this part of the rows is routed to; needs a "
              + "residency.pin.budget",
          PinOptions::threshold);

  private static final OptionSpec<OptionalLong> BUDGET =
      new OptionSpec<>(
          "residency.pin.budget",
          ByteSize.VALID,
          NONE,
          "what the experts above the threshold may take together",
          text -> text.isEmpty() ? OptionalLong.empty() : OptionalLong.of(ByteSize.parse(text)));

  private static final OptionSpec<Boolean> SCAN_RESISTANT =
      new OptionSpec<>(
          "residency.pin.scan-resistant",
          "true or false",
          "false",
          "with hot-set, experts that are not pinned stay until a pinned one needs their room",
          PinOptions::bool);

  /** All of them. */
  public static final List<OptionSpec<?>> SPECS = List.of(KEYS, THRESHOLD, BUDGET, SCAN_RESISTANT);

  private PinOptions() {}

  /** What the options say. */
  public static PinSettings of(ProviderOptions options) {
    return new PinSettings(
        options.get(KEYS),
        options.get(THRESHOLD),
        options.get(BUDGET),
        options.get(SCAN_RESISTANT));
  }

  private static List<ExpertKey> keys(String text) {
    if (text.isEmpty()) {
      return List.of();
    }
    return Arrays.stream(text.split(",", -1)).map(PinOptions::key).toList();
  }

  private static ExpertKey key(String text) {
    String[] parts = text.trim().split(":", -1);
    if (parts.length != 2) {
      throw new IllegalArgumentException(text);
    }
    return new ExpertKey(Integer.parseUnsignedInt(parts[0]), Integer.parseUnsignedInt(parts[1]));
  }

  private static OptionalDouble threshold(String text) {
    if (text.isEmpty()) {
      return OptionalDouble.empty();
    }
    double value = Double.parseDouble(text);
    if (!(value > 0 && value <= 1)) {
      throw new IllegalArgumentException(text);
    }
    return OptionalDouble.of(value);
  }

  private static boolean bool(String text) {
    return switch (text) {
      case "true" -> true;
      case "false" -> false;
      default -> throw new IllegalArgumentException(text);
    };
  }
}
