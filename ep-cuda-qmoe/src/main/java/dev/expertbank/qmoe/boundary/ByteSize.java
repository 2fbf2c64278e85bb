package dev.expertbank.qmoe.boundary;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Numbers of bytes as options state them. */
public final class ByteSize {
  /** What is valid, in words. */
  public static final String VALID = "a number of bytes such as 8GiB, 512MiB, 64KiB or 1048576";

  private static final Pattern TEXT = Pattern.compile("(\\d{1,18})([KMGT]iB)?");

  private ByteSize() {}

  /**
   * Parses a number of bytes.
   *
   * @throws IllegalArgumentException if the text is none, or it is too large for a long
   */
  public static long parse(String text) {
    Matcher matcher = TEXT.matcher(text);
    if (!matcher.matches()) {
      throw new IllegalArgumentException(text);
    }
    long number = Long.parseLong(matcher.group(1));
    int shift =
        switch (matcher.group(2)) {
          case "KiB" -> 10;
          case "MiB" -> 20;
          case "GiB" -> 30;
          case "TiB" -> 40;
          case null, default -> 0;
        };
    if (number > Long.MAX_VALUE >> shift) {
      throw new IllegalArgumentException(text);
    }
    return number << shift;
  }
}
