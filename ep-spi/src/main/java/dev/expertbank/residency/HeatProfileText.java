package dev.expertbank.residency;

import dev.expertbank.spi.EpException;
import dev.expertbank.spi.Printable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * The text of a {@link HeatProfile}, the same for the same profile:
 *
 * <pre>
 * expertbank-profile 1
 * model IDENTITY
 * layer 0 VALUE VALUE …
 * layer 1 VALUE VALUE …
 * end
 * </pre>
 *
 * <p>ASCII, every line ended by a line feed, one space between words, one value for each expert in
 * the form of {@link Double#toString(double)}. There is one way to write a profile, and any other
 * text is refused as a whole.
 */
public final class HeatProfileText {
  private static final String MAGIC = "expertbank-profile ";
  private static final String VERSION = "1";

  /** A value has at most 24 characters, as has the start of a line; 128 is for the other lines. */
  private static final int WIDEST_WORD = 25;

  private static final int OTHER_LINES = 128;

  private HeatProfileText() {}

  /** The text of a profile. */
  public static String format(HeatProfile profile) {
    ResidencyLayout layout = profile.layout();
    StringBuilder text = new StringBuilder();
    text.append(MAGIC).append(VERSION).append('\n');
    text.append("model ").append(HeatProfile.identity(layout)).append('\n');
    int index = 0;
    for (int layer = 0; layer < layout.layers().size(); layer++) {
      text.append("layer ").append(layer);
      for (int expert = 0; expert < layout.layer(layer).experts(); expert++) {
        text.append(' ').append(profile.usesPerRow(index++));
      }
      text.append('\n');
    }
    return text.append("end\n").toString();
  }

  /**
   * The profile of a text.
   *
   * @param layout of the model that it is to be used for
   * @throws EpException {@code profile.version}, {@code profile.model} if it is of another model,
   *     {@code profile.format} with the line
   */
  public static HeatProfile parse(String text, ResidencyLayout layout) {
    if (text.length() > longest(layout)) {
      throw new EpException(
          "profile.format", "longer than any profile of this model: not a profile");
    }
    return new Reader(text, layout).read();
  }

  /**
   * Reads a profile from a file.
   *
   * @throws EpException {@code profile.read} if the file cannot be read, or as {@link #parse}, each
   *     with the file's name
   */
  public static HeatProfile load(Path file, ResidencyLayout layout) {
    String text;
    try (InputStream in = Files.newInputStream(file)) {
      // Whatever is beyond the longest profile needs not be read to be refused.
      text = new String(in.readNBytes(longest(layout) + 1), StandardCharsets.ISO_8859_1);
    } catch (IOException e) {
      throw new EpException("profile.read", "cannot read the profile " + name(file) + ": " + e, e);
    }
    try {
      return parse(text, layout);
    } catch (EpException e) {
      throw new EpException(
          e.code(), "the profile " + name(file) + " is refused: " + e.getMessage(), e);
    }
  }

  /**
   * Writes a profile to a file, which has the old content or the new one at any time.
   *
   * @throws EpException {@code profile.write}
   */
  public static void save(HeatProfile profile, Path file) {
    try {
      Path directory = file.toAbsolutePath().getParent();
      Path written = Files.createTempFile(directory, "profile", ".part");
      try {
        Files.writeString(written, format(profile), StandardCharsets.US_ASCII);
        Files.move(
            written, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
      } finally {
        Files.deleteIfExists(written);
      }
    } catch (IOException e) {
      throw new EpException(
          "profile.write", "cannot write the profile " + name(file) + ": " + e, e);
    }
  }

  private static String name(Path file) {
    return Printable.quote(file.toString());
  }

  private static int longest(ResidencyLayout layout) {
    long words = (long) layout.keys().size() + layout.layers().size();
    return (int) Math.min(words * WIDEST_WORD + OTHER_LINES, Integer.MAX_VALUE - 8);
  }

  /** Takes the text apart, from the left. */
  private static final class Reader {
    private final String text;
    private final ResidencyLayout layout;
    private int position;
    private int line;

    Reader(String text, ResidencyLayout layout) {
      this.text = text;
      this.layout = layout;
    }

    HeatProfile read() {
      version();
      String identity = HeatProfile.identity(layout);
      String model = after("model ");
      if (!model.matches("[0-9a-f]{64}")) {
        throw malformed("the model's identity is not 64 hexadecimal digits");
      }
      if (!model.equals(identity)) {
        throw new EpException(
            "profile.model",
            "it is of model " + model + ", this one is " + identity + ": record a new profile");
      }
      double[] values = new double[layout.keys().size()];
      int index = 0;
      for (int layer = 0; layer < layout.layers().size(); layer++) {
        String[] words = after("layer " + layer + " ").split(" ", -1);
        if (words.length != layout.layer(layer).experts()) {
          throw malformed(
              words.length + " values for " + layout.layer(layer).experts() + " experts");
        }
        for (String word : words) {
          values[index++] = value(word);
        }
      }
      if (!nextLine().equals("end")) {
        throw malformed("not 'end'");
      }
      if (position != text.length()) {
        throw malformed("text after the end");
      }
      return new HeatProfile(layout, values);
    }

    private void version() {
      String version = after(MAGIC);
      if (!version.equals(VERSION)) {
        throw new EpException(
            "profile.version",
            "version " + Printable.quote(version) + " is not supported; " + VERSION + " is");
      }
    }

    private String after(String start) {
      String next = nextLine();
      if (!next.startsWith(start)) {
        throw malformed("does not start with '" + start + "'");
      }
      return next.substring(start.length());
    }

    private String nextLine() {
      line++;
      int end = text.indexOf('\n', position);
      if (end < 0) {
        throw malformed("the text ends here");
      }
      String next = text.substring(position, end);
      position = end + 1;
      return next;
    }

    private double value(String word) {
      double value;
      try {
        value = Double.parseDouble(word);
      } catch (NumberFormatException e) {
        throw malformed(Printable.quote(word) + " is not a number");
      }
      if (!HeatProfile.isPart(value) || !Double.toString(value).equals(word)) {
        throw malformed(
            Printable.quote(word) + " is not a part of the rows, 0.0 to 1.0 in shortest form");
      }
      return value;
    }

    private EpException malformed(String what) {
      return new EpException("profile.format", "line " + line + ": " + what);
    }
  }
}
