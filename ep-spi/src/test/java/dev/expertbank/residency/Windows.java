package dev.expertbank.residency;

import java.util.Arrays;
import java.util.List;

/** Makes windows of one owner, and is the source of the one that comes next. */
final class Windows implements RouteWindowSource {
  static final RouteWindow.Owner OWNER = new RouteWindow.Owner(7, 1);

  private final ResidencyLayout layout;
  private final int[][] counts;
  private int tokens;
  private long epoch;
  int reads;

  Windows(ResidencyLayout layout) {
    this.layout = layout;
    counts = layout.layers().stream().map(layer -> new int[layer.experts()]).toArray(int[][]::new);
  }

  /** Routes one row in every layer: {@code experts[layer][k]}. */
  void route(int[]... experts) {
    for (int layer = 0; layer < experts.length; layer++) {
      for (int expert : experts[layer]) {
        counts[layer][expert]++;
      }
    }
    tokens++;
  }

  /** Routes one row to the same experts in every layer. */
  void routeEverywhere(int... experts) {
    int[][] all = new int[layout.layers().size()][];
    Arrays.fill(all, experts);
    route(all);
  }

  @Override
  public RouteWindow read() {
    reads++;
    int[][] copy = Arrays.stream(counts).map(int[]::clone).toArray(int[][]::new);
    int routes = Arrays.stream(copy).flatMapToInt(Arrays::stream).sum();
    return new RouteWindow(
        new int[] {(int) epoch, OWNER.request(), OWNER.device(), 0, 0, routes}, copy, tokens);
  }

  @Override
  public void reset(long nextEpoch) {
    epoch = nextEpoch;
    tokens = 0;
    List.of(counts).forEach(layer -> Arrays.fill(layer, 0));
  }
}
