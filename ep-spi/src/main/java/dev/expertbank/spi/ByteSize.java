package dev.expertbank.spi;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Numbers of bytes as options and arguments state them. */
public final class ByteSize {
  /** What is valid, in words. */
  public static final String VALID = "a number of bytes such as 8GiB, 512MiB, 64KiB or 1048576";

  private static final Pattern SYNTAX = Pattern.compile("(\\d{1,18})([KMGT]iB)?");
  private static final String PREFIXES = "KMGT";
  private static final int BITS_PER_PREFIX = 10;

  private ByteSize() {}

  /**
   * Reads a number of bytes.
   *
   * @throws IllegalArgumentException with a message for the user, if it is none or does not fit a
   *     {@code long}
   */
  public static long parse(String text) {
    Matcher syntax = SYNTAX.matcher(text);
    if (!syntax.matches()) {
      throw new IllegalArgumentException(Printable.quote(text) + " is not " + VALID);
    }
    String unit = syntax.group(2);
    int shift = unit == null ? 0 : (PREFIXES.indexOf(unit.charAt(0)) + 1) * BITS_PER_PREFIX;
    long number = Long.parseLong(syntax.group(1));
    if (number > Long.MAX_VALUE >> shift) {
      throw new IllegalArgumentException(Printable.quote(text) + " is more than 8 EiB");
    }
    return number << shift;
  }
}
