package dev.expertbank.model.cli;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;

/** A plain-text table: a header, rows, two spaces between columns, numbers to the right. */
public final class Table {
  private final List<String[]> rows = new ArrayList<>();

  /**
   * Begins a table.
   *
   * @param headers one per column; a column whose header starts with {@code >} is aligned right
   */
  public Table(String... headers) {
    rows.add(headers);
  }

  /** Adds a row; its texts are printable already. */
  public void row(String... cells) {
    rows.add(cells);
  }

  public void print(PrintWriter out, String indent) {
    String[] headers = rows.getFirst();
    boolean[] right = new boolean[headers.length];
    int[] widths = new int[headers.length];
    for (int column = 0; column < headers.length; column++) {
      right[column] = headers[column].startsWith(">");
      headers[column] = headers[column].substring(right[column] ? 1 : 0);
    }
    for (String[] row : rows) {
      for (int column = 0; column < headers.length; column++) {
        widths[column] = Math.max(widths[column], width(row[column]));
      }
    }
    for (String[] row : rows) {
      StringBuilder line = new StringBuilder(indent);
      for (int column = 0; column < headers.length; column++) {
        String padding = " ".repeat(widths[column] - width(row[column]));
        line.append(right[column] ? padding + row[column] : row[column] + padding).append("  ");
      }
      out.println(line.toString().stripTrailing());
    }
  }

  private static int width(String text) {
    return text.codePointCount(0, text.length());
  }
}
