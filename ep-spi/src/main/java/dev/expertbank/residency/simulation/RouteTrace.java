package dev.expertbank.residency.simulation;

import java.util.ArrayList;
import java.util.List;

/**
 * Recorded routes of one model, one window for each run. Immutable.
 *
 * @param experts of each layer
 * @param topK experts that a row is routed to, in each layer
 */
public record RouteTrace(List<Integer> experts, List<Integer> topK, List<Window> windows) {
  public RouteTrace {
    experts = List.copyOf(experts);
    topK = List.copyOf(topK);
    windows = List.copyOf(windows);
    if (experts.size() != topK.size() || experts.isEmpty()) {
      throw new IllegalArgumentException(
          experts.size() + " layers with experts, " + topK.size() + " with top k");
    }
  }

  /** What a run does. */
  public enum Phase {
    /** Reads a prompt. */
    PREFILL,
    /** Makes tokens. */
    DECODE
  }

  /**
   * The routes of one run.
   *
   * @param rows how many there are; not 0
   * @param counts {@code [layers][experts]}: how many rows were routed to the expert; not copied
   */
  @SuppressWarnings("ArrayRecordComponent")
  public record Window(Phase phase, int rows, int[][] counts) {}

  /** Makes a trace from the routes of single rows. Checks everything that it is given. */
  public static final class Builder {
    private final List<Integer> experts;
    private final List<Integer> topK;
    private final List<Window> windows = new ArrayList<>();

    /** A model whose layers have these many experts and route to this many of them. */
    public Builder(List<Integer> experts, List<Integer> topK) {
      this.experts = List.copyOf(experts);
      this.topK = List.copyOf(topK);
    }

    /**
     * Adds a run.
     *
     * @param rows {@code [rows][layers][top k]}: the experts of each row, in any order
     * @throws IllegalArgumentException naming row, layer and column of what cannot be
     */
    public Builder window(Phase phase, int[][]... rows) {
      if (rows.length == 0) {
        throw new IllegalArgumentException("a window without rows");
      }
      int[][] counts = noCounts();
      for (int row = 0; row < rows.length; row++) {
        count(rows[row], counts, row);
      }
      windows.add(new Window(phase, rows.length, counts));
      return this;
    }

    /**
     * Adds a run for each row.
     *
     * @param rows {@code [rows][layers][top k]}: the experts of each row, in any order
     * @throws IllegalArgumentException naming row, layer and column of what cannot be
     */
    public Builder windowPerRow(Phase phase, int[][]... rows) {
      for (int row = 0; row < rows.length; row++) {
        int[][] counts = noCounts();
        count(rows[row], counts, row);
        windows.add(new Window(phase, 1, counts));
      }
      return this;
    }

    private int[][] noCounts() {
      return experts.stream().map(int[]::new).toArray(int[][]::new);
    }

    private void count(int[][] layers, int[][] counts, int row) {
      if (layers.length != experts.size()) {
        throw new IllegalArgumentException(
            "row %d has %d layers, not %d".formatted(row, layers.length, experts.size()));
      }
      for (int layer = 0; layer < layers.length; layer++) {
        count(layers[layer], counts[layer], row, layer);
      }
    }

    private void count(int[] chosen, int[] counts, int row, int layer) {
      if (chosen.length != topK.get(layer)) {
        throw new IllegalArgumentException(
            "row %d, layer %d: %d experts, not %d"
                .formatted(row, layer, chosen.length, topK.get(layer)));
      }
      boolean[] seen = new boolean[counts.length];
      for (int column = 0; column < chosen.length; column++) {
        int expert = chosen[column];
        if (expert < 0 || expert >= counts.length) {
          throw new IllegalArgumentException(
              "row %d, layer %d, column %d: expert %d of %d"
                  .formatted(row, layer, column, expert, counts.length));
        }
        if (seen[expert]) {
          throw new IllegalArgumentException(
              "row %d, layer %d, column %d: expert %d is there twice"
                  .formatted(row, layer, column, expert));
        }
        seen[expert] = true;
        counts[expert]++;
      }
    }

    /** The trace of what was added. */
    public RouteTrace build() {
      return new RouteTrace(experts, topK, windows);
    }
  }

  /** This trace and then another of the same model. */
  public RouteTrace then(RouteTrace next) {
    if (!next.experts.equals(experts) || !next.topK.equals(topK)) {
      throw new IllegalArgumentException("traces of different models");
    }
    List<Window> both = new ArrayList<>(windows);
    both.addAll(next.windows);
    return new RouteTrace(experts, topK, both);
  }
}
