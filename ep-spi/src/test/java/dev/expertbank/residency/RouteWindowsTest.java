package dev.expertbank.residency;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.residency.RouteWindow.Header;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class RouteWindowsTest {
  private static final long EPOCH = 0xFFFF_FFFEL;

  private final ResidencyLayout layout =
      new ResidencyLayout(
          List.of(LayerLayout.pageable(4, 2, 10, 10), LayerLayout.pageable(3, 1, 10, 10)));

  /** One defect for each problem, in the order of the checks; each leaves the others sound. */
  private final List<Defect> defects =
      List.of(
          new Defect(RouteWindowProblem.HEADER_LENGTH, w -> w.header = Arrays.copyOf(w.header, 5)),
          new Defect(RouteWindowProblem.COUNTS_LENGTH, w -> w.counts[1] = new int[] {3, 0}),
          new Defect(RouteWindowProblem.POISON, w -> w.set(Header.POISON, 1)),
          new Defect(RouteWindowProblem.OVERFLOW, w -> w.set(Header.OVERFLOW, 1)),
          new Defect(RouteWindowProblem.DEVICE, w -> w.set(Header.DEVICE, 2)),
          new Defect(RouteWindowProblem.REQUEST, w -> w.set(Header.REQUEST, 8)),
          new Defect(RouteWindowProblem.EPOCH, w -> w.set(Header.EPOCH, 1)),
          new Defect(RouteWindowProblem.EXPERT_COUNT, w -> w.counts[0] = new int[] {4, 1, 1, 0}),
          new Defect(RouteWindowProblem.COUNT_SUM, w -> w.set(Header.COUNT, 8)));

  private interface Damage {
    void to(Parts window);
  }

  private record Defect(RouteWindowProblem problem, Damage damage) {}

  /** A window of three rows, open for changes. */
  private static final class Parts {
    private int[] header =
        new int[] {(int) EPOCH, Windows.OWNER.request(), Windows.OWNER.device(), 0, 0, 9};
    private final int[][] counts = {{3, 2, 1, 0}, {1, 0, 2}};
    private long tokens = 3;

    private void set(Header word, int value) {
      if (word.index() < header.length) {
        header[word.index()] = value;
      }
    }
  }

  private Optional<RouteWindows.Finding> validate(Parts parts) {
    return RouteWindows.validate(
        new RouteWindow(parts.header, parts.counts, parts.tokens), EPOCH, Windows.OWNER, layout);
  }

  private void assertProblem(Parts parts, RouteWindowProblem problem) {
    assertThat(validate(parts).map(RouteWindows.Finding::problem)).contains(problem);
  }

  @Test
  void aSoundWindowHasNoFinding() {
    assertThat(validate(new Parts())).isEmpty();
  }

  @Test
  void eachDefectHasItsOwnProblem() {
    for (Defect defect : defects) {
      Parts parts = new Parts();
      defect.damage().to(parts);
      assertProblem(parts, defect.problem());
    }
  }

  @Test
  void theFirstProblemInTheOrderOfTheChecksWins() {
    for (int first = 0; first < defects.size(); first++) {
      Parts parts = new Parts();
      for (int later = defects.size() - 1; later >= first; later--) {
        defects.get(later).damage().to(parts);
      }
      assertProblem(parts, defects.get(first).problem());
    }
    assertThat(defects.stream().map(Defect::problem))
        .containsExactlyElementsOf(
            new ArrayList<>(List.of(RouteWindowProblem.values()).subList(0, defects.size())));
  }

  @Test
  void aMissingLayerIsAProblemOfTheCounts() {
    RouteWindow window = new RouteWindow(new Parts().header, new int[][] {{3, 2, 1, 0}}, 3);
    assertThat(
            RouteWindows.validate(window, EPOCH, Windows.OWNER, layout)
                .map(RouteWindows.Finding::problem))
        .contains(RouteWindowProblem.COUNTS_LENGTH);
  }

  @Test
  void routesOfHalfARowAreFound() {
    Parts parts = new Parts();
    parts.counts[0][2] = 0;
    parts.set(Header.COUNT, 8);
    assertProblem(parts, RouteWindowProblem.PARTIAL_ROW);
  }

  @Test
  void moreRowsThanALayerRoutedAreFound() {
    Parts parts = new Parts();
    parts.tokens = 4;
    assertProblem(parts, RouteWindowProblem.TOKENS);
  }

  @Test
  void moreRoutesThanRowsAreFound() {
    Parts parts = new Parts();
    parts.counts[0] = new int[] {3, 2, 2, 1};
    parts.set(Header.COUNT, 11);
    assertProblem(parts, RouteWindowProblem.TOKENS);
  }

  @Test
  void aLayerThatRoutedFewerRowsIsSound() {
    Parts parts = new Parts();
    parts.counts[1] = new int[] {0, 1, 0};
    parts.set(Header.COUNT, 7);
    assertThat(validate(parts)).isEmpty();
  }

  @Test
  void aSoundWindowWithoutRowsIsEmpty() {
    Parts parts = new Parts();
    parts.counts[0] = new int[4];
    parts.counts[1] = new int[3];
    parts.tokens = 0;
    parts.set(Header.COUNT, 0);
    assertProblem(parts, RouteWindowProblem.EMPTY);
  }

  @Test
  void countsAreUnsigned() {
    ResidencyLayout one = new ResidencyLayout(List.of(LayerLayout.pageable(2, 1, 10, 10)));
    int many = (int) 3_000_000_000L;
    RouteWindow window =
        new RouteWindow(
            new int[] {(int) EPOCH, 7, 1, 0, 0, many}, new int[][] {{many, 0}}, 3_000_000_000L);
    assertThat(RouteWindows.validate(window, EPOCH, Windows.OWNER, one)).isEmpty();
  }
}
