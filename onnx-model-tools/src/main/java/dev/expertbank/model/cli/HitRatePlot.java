package dev.expertbank.model.cli;

import java.util.List;
import java.util.Locale;

/**
 * Draws byte hit rates against budgets as SVG. Lines differ in colour, marker and, for references,
 * dashes; every line and point has a title, and the description holds the numbers.
 *
 * @param model what the routes are of
 * @param subject which part of them is shown
 * @param axis what the horizontal axis shows
 */
record HitRatePlot(String model, String subject, String axis, List<Line> lines) {
  private static final int WIDTH = 880;
  private static final int HEIGHT = 480;
  private static final int LEFT = 72;
  private static final int RIGHT = 620;
  private static final int TOP = 72;
  private static final int BOTTOM = 416;
  private static final int LEGEND = RIGHT + 24;
  private static final int LEGEND_STEP = 24;
  private static final int[] TICKS = {0, 20, 40, 60, 80, 100};

  /** Distinct for most forms of colour blindness, and dark enough on white. */
  private static final String[] COLOURS = {
    "#0072b2", "#d55e00", "#007a5a", "#b0508c", "#8a6d00", "#4b4bc3"
  };

  private static final String[] REFERENCE_COLOURS = {"#6b6b6b", "#000000"};
  private static final String[] REFERENCE_DASHES = {"2 4", "8 4"};

  HitRatePlot {
    lines = List.copyOf(lines);
  }

  /** Both 0 to 1. */
  record Point(double budget, double hitRate) {}

  /**
   * One policy.
   *
   * @param points by ascending budget
   */
  record Line(String name, boolean reference, List<Point> points) {
    Line {
      points = List.copyOf(points);
    }
  }

  /** How a line is told from the others. */
  private record Style(String colour, String dashes, int marker) {
    static final int MARKERS = 4;

    String marker(double x, double y) {
      return switch (marker) {
        case 0 -> String.format(Locale.ROOT, "<circle cx='%.1f' cy='%.1f' r='4'/>", x, y);
        case 1 ->
            String.format(
                Locale.ROOT, "<rect x='%.1f' y='%.1f' width='7' height='7'/>", x - 3.5, y - 3.5);
        case 2 -> String.format(Locale.ROOT, "<path d='M%.1f %.1fl5 9h-10z'/>", x, y - 5);
        default -> String.format(Locale.ROOT, "<path d='M%.1f %.1fl5 5l-5 5l-5 -5z'/>", x, y - 5);
      };
    }

    String stroke() {
      return "fill='none' stroke='"
          + colour
          + "' stroke-width='2'"
          + (dashes.isEmpty() ? "" : " stroke-dasharray='" + dashes + "'");
    }
  }

  String svg() {
    StringBuilder svg = new StringBuilder();
    svg.append("<?xml version='1.0' encoding='UTF-8'?>\n")
        .append("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 ")
        .append(WIDTH + " " + HEIGHT + "' width='" + WIDTH + "' height='" + HEIGHT)
        .append("' role='img' aria-labelledby='title desc' font-family='sans-serif'")
        .append(" font-size='13' fill='#222222'>\n");
    svg.append("<title id='title'>Byte hit rate against budget: ").append(escape(model));
    svg.append("</title>\n<desc id='desc'>").append(escape(description())).append("</desc>\n");
    svg.append("<rect width='100%' height='100%' fill='#ffffff'/>\n");
    svg.append(text(LEFT, 30, "start", "font-size='17' font-weight='bold'", "Byte hit rate"));
    svg.append(text(LEFT, 52, "start", "", model + " · " + subject));
    axes(svg);
    for (int i = 0; i < lines.size(); i++) {
      int legendY = TOP + LEGEND_STEP / 2 + i * LEGEND_STEP;
      int same = firstEqual(i);
      if (same == i) {
        line(svg, lines.get(i), style(i), legendY);
      } else {
        String name = lines.get(i).name() + " = " + lines.get(same).name();
        svg.append(text(LEGEND + 40, legendY + 4, "start", "", name));
      }
    }
    return svg.append("</svg>\n").toString();
  }

  /** A policy that does the same as one before it has no line of its own, which would hide it. */
  private int firstEqual(int index) {
    Line line = lines.get(index);
    for (int i = 0; i < index; i++) {
      Line earlier = lines.get(i);
      if (earlier.reference() == line.reference() && earlier.points().equals(line.points())) {
        return i;
      }
    }
    return index;
  }

  private String description() {
    StringBuilder text = new StringBuilder(subject + ".");
    for (Line line : lines) {
      text.append(' ').append(line.name()).append(':');
      for (Point point : line.points()) {
        text.append(' ').append(label(point)).append(';');
      }
      text.setCharAt(text.length() - 1, '.');
    }
    return text.toString();
  }

  private static String label(Point point) {
    return String.format(
        Locale.ROOT, "%.1f %% at %.1f %%", 100 * point.hitRate(), 100 * point.budget());
  }

  private void axes(StringBuilder svg) {
    for (int tick : TICKS) {
      double x = x(tick / 100.0);
      double y = y(tick / 100.0);
      String grid = tick == 0 ? "#222222" : "#dddddd";
      svg.append(
          String.format(
              Locale.ROOT,
              "<path d='M%d %.1fH%d' stroke='%s' fill='none'/>\n",
              LEFT,
              y,
              RIGHT,
              grid));
      svg.append(
          String.format(
              Locale.ROOT,
              "<path d='M%.1f %dV%d' stroke='%s' fill='none'/>\n",
              x,
              TOP,
              BOTTOM,
              grid));
      svg.append(text(LEFT - 10, y + 4, "end", "", tick + " %"));
      svg.append(text(x, BOTTOM + 20, "middle", "", tick + " %"));
    }
    svg.append(text((LEFT + RIGHT) / 2.0, BOTTOM + 44, "middle", "", axis));
    double middle = (TOP + BOTTOM) / 2.0;
    svg.append(
        text(
            20,
            middle,
            "middle",
            String.format(Locale.ROOT, "transform='rotate(-90 20 %.1f)'", middle),
            "part of the used bytes that was resident"));
  }

  private Style style(int index) {
    Line line = lines.get(index);
    int before =
        (int)
            lines.stream()
                .limit(index)
                .filter(other -> other.reference() == line.reference())
                .count();
    return line.reference()
        ? new Style(
            REFERENCE_COLOURS[before % REFERENCE_COLOURS.length],
            REFERENCE_DASHES[before % REFERENCE_DASHES.length],
            before % Style.MARKERS)
        : new Style(COLOURS[before % COLOURS.length], "", before % Style.MARKERS);
  }

  private static void line(StringBuilder svg, Line line, Style style, int legendY) {
    svg.append("<g fill='").append(style.colour()).append("'>\n");
    svg.append("<title>").append(escape(line.name())).append("</title>\n");
    svg.append("<path d='");
    for (int i = 0; i < line.points().size(); i++) {
      Point point = line.points().get(i);
      svg.append(
          String.format(
              Locale.ROOT,
              "%s%.1f %.1f",
              i == 0 ? "M" : "L",
              x(point.budget()),
              y(point.hitRate())));
    }
    svg.append("' ").append(style.stroke()).append("/>\n");
    for (Point point : line.points()) {
      svg.append("<g><title>").append(escape(line.name() + ": " + label(point)));
      svg.append("</title>").append(style.marker(x(point.budget()), y(point.hitRate())));
      svg.append("</g>\n");
    }
    svg.append(
        String.format(Locale.ROOT, "<path d='M%d %dh32' %s/>", LEGEND, legendY, style.stroke()));
    svg.append(style.marker(LEGEND + 16, legendY));
    svg.append(text(LEGEND + 40, legendY + 4, "start", "", line.name()));
    svg.append("</g>\n");
  }

  private static double x(double budget) {
    return LEFT + budget * (RIGHT - LEFT);
  }

  private static double y(double hitRate) {
    return BOTTOM - hitRate * (BOTTOM - TOP);
  }

  private static String text(double x, double y, String anchor, String attributes, String text) {
    return String.format(
            Locale.ROOT, "<text x='%.1f' y='%.1f' text-anchor='%s' %s>", x, y, anchor, attributes)
        + escape(text)
        + "</text>\n";
  }

  private static String escape(String text) {
    return text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("'", "&#39;");
  }
}
