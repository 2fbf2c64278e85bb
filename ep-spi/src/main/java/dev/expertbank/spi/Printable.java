package dev.expertbank.spi;

/** Makes untrusted text, such as a name from a model file, safe to put into a message. */
public final class Printable {
  /** What a name may take up in a message. */
  private static final int MAX_NAME_CHARACTERS = 120;

  private Printable() {}

  /**
   * Escapes every character that has no glyph of its own, or could change how its neighbours are
   * shown: controls, bidirectional and other format characters, line separators, spaces other than
   * the plain one, unpaired surrogates, unassigned and private characters. They appear as {@code
   * \n}, {@code \r}, {@code \t} or {@code \}{@code u{hex}}; a backslash appears doubled, so the
   * result is unambiguous.
   *
   * @param maxCharacters characters of {@code text} to show; when there are more, the result says
   *     how many were left out
   */
  public static String escape(String text, int maxCharacters) {
    StringBuilder out = new StringBuilder(Math.min(text.length(), maxCharacters) + 16);
    int shown = 0;
    int index = 0;
    while (index < text.length() && shown < maxCharacters) {
      int character = text.codePointAt(index);
      appendEscaped(out, character);
      index += Character.charCount(character);
      shown++;
    }
    if (index < text.length()) {
      out.append("… (").append(text.length() - index).append(" more)");
    }
    return out.toString();
  }

  /** The text escaped, limited to the length of a reasonable name, and in single quotes. */
  public static String quote(String text) {
    return "'" + escape(text, MAX_NAME_CHARACTERS) + "'";
  }

  private static void appendEscaped(StringBuilder out, int character) {
    switch (character) {
      case '\\' -> out.append("\\\\");
      case '\n' -> out.append("\\n");
      case '\r' -> out.append("\\r");
      case '\t' -> out.append("\\t");
      default -> {
        if (isPlain(character)) {
          out.appendCodePoint(character);
        } else {
          out.append("\\u{").append(Integer.toHexString(character)).append('}');
        }
      }
    }
  }

  private static boolean isPlain(int character) {
    return switch (Character.getType(character)) {
      case Character.CONTROL,
          Character.FORMAT,
          Character.SURROGATE,
          Character.PRIVATE_USE,
          Character.UNASSIGNED,
          Character.LINE_SEPARATOR,
          Character.PARAGRAPH_SEPARATOR ->
          false;
      case Character.SPACE_SEPARATOR -> character == ' ';
      default -> true;
    };
  }
}
