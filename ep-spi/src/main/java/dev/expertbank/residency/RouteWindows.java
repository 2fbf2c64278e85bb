package dev.expertbank.residency;

import dev.expertbank.residency.RouteWindow.Header;
import java.util.List;
import java.util.Optional;

/**
 * Checks windows before anything is decided from them.
 *
 * <p>The checks are those of a record with one bit per expert, carried over to counts: the bitmap's
 * length became the number of layers and of counts in each; bits beyond the last expert cannot
 * exist, a count beyond the number of rows took their place; the number of set bits became the sum
 * of the counts; and "at least as many routes as distinct experts, none without the other" became
 * "rows and routes of every layer agree".
 */
public final class RouteWindows {
  private RouteWindows() {}

  /** The first problem of a window. */
  public record Finding(RouteWindowProblem problem, String detail) {}

  /**
   * Checks a window in the order of {@link RouteWindowProblem}, first finding wins.
   *
   * @param epoch the window that is due
   * @return empty if the window is sound and has routes
   */
  public static Optional<Finding> validate(
      RouteWindow window, long epoch, RouteWindow.Owner owner, ResidencyLayout layout) {
    return shape(window, layout)
        .or(() -> header(window, epoch, owner))
        .or(() -> counts(window, layout));
  }

  private static Optional<Finding> shape(RouteWindow window, ResidencyLayout layout) {
    if (window.header().length != Header.LENGTH) {
      return found(RouteWindowProblem.HEADER_LENGTH, window.header().length + " words");
    }
    List<LayerLayout> layers = layout.layers();
    if (window.counts().length != layers.size()) {
      return found(
          RouteWindowProblem.COUNTS_LENGTH,
          window.counts().length + " layers, not " + layers.size());
    }
    for (int layer = 0; layer < layers.size(); layer++) {
      int length = window.counts()[layer].length;
      if (length != layers.get(layer).experts()) {
        return found(
            RouteWindowProblem.COUNTS_LENGTH,
            "layer %d: %d counts for %d experts"
                .formatted(layer, length, layers.get(layer).experts()));
      }
    }
    return Optional.empty();
  }

  private static Optional<Finding> header(RouteWindow window, long epoch, RouteWindow.Owner owner) {
    if (window.word(Header.POISON) != 0) {
      return found(RouteWindowProblem.POISON, "a row was routed to an expert that does not exist");
    }
    if (window.word(Header.OVERFLOW) != 0) {
      return found(RouteWindowProblem.OVERFLOW, "a counter has saturated");
    }
    return unexpected(
            window,
            Header.DEVICE,
            Integer.toUnsignedLong(owner.device()),
            RouteWindowProblem.DEVICE)
        .or(
            () ->
                unexpected(
                    window,
                    Header.REQUEST,
                    Integer.toUnsignedLong(owner.request()),
                    RouteWindowProblem.REQUEST))
        .or(() -> unexpected(window, Header.EPOCH, epoch, RouteWindowProblem.EPOCH));
  }

  private static Optional<Finding> unexpected(
      RouteWindow window, Header word, long expected, RouteWindowProblem problem) {
    long actual = window.word(word);
    return actual == expected
        ? Optional.empty()
        : found(problem, "%d, not %d".formatted(actual, expected));
  }

  private static Optional<Finding> counts(RouteWindow window, ResidencyLayout layout) {
    int layers = layout.layers().size();
    long[] routes = new long[layers];
    long sum = 0;
    for (int layer = 0; layer < layers; layer++) {
      for (int expert = 0; expert < layout.layer(layer).experts(); expert++) {
        if (window.count(layer, expert) > window.tokens()) {
          return found(
              RouteWindowProblem.EXPERT_COUNT,
              "layer %d, expert %d: %d of %d rows"
                  .formatted(layer, expert, window.count(layer, expert), window.tokens()));
        }
      }
      routes[layer] = window.routes(layer);
      sum += routes[layer];
    }
    if (sum != window.word(Header.COUNT)) {
      return found(
          RouteWindowProblem.COUNT_SUM,
          "%d routes in the header, %d in the counts".formatted(window.word(Header.COUNT), sum));
    }
    return rows(window, layout, routes);
  }

  private static Optional<Finding> rows(RouteWindow window, ResidencyLayout layout, long[] routes) {
    long mostRows = 0;
    for (int layer = 0; layer < routes.length; layer++) {
      int topK = layout.layer(layer).topK();
      if (routes[layer] % topK != 0) {
        return found(
            RouteWindowProblem.PARTIAL_ROW,
            "layer %d: %d routes, %d for each row".formatted(layer, routes[layer], topK));
      }
      mostRows = Math.max(mostRows, routes[layer] / topK);
    }
    if (mostRows != window.tokens()) {
      return found(
          RouteWindowProblem.TOKENS,
          "%d rows, but routes of %d".formatted(window.tokens(), mostRows));
    }
    return mostRows == 0 ? found(RouteWindowProblem.EMPTY, "no row was routed") : Optional.empty();
  }

  private static Optional<Finding> found(RouteWindowProblem problem, String detail) {
    return Optional.of(new Finding(problem, detail));
  }
}
