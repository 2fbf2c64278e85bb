package dev.expertbank.qmoe.boundary;

import dev.expertbank.qmoe.device.RouteCounters;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.RouteWindow;
import dev.expertbank.residency.RouteWindow.Header;
import dev.expertbank.residency.RouteWindowSource;
import java.util.Arrays;

/** The device's record of routes as windows. */
final class RouteTelemetry implements RouteWindowSource {
  /** A record belongs to one session and one device, so there is nobody else to tell it from. */
  static final RouteWindow.Owner OWNER = new RouteWindow.Owner(0, 0);

  private final RouteCounters counters;
  private final ResidencyLayout layout;

  RouteTelemetry(RouteCounters counters, ResidencyLayout layout) {
    this.counters = counters;
    this.layout = layout;
  }

  @Override
  public RouteWindow read() {
    int[] words = counters.read();
    int[][] counts = new int[layout.layers().size()][];
    int next = Header.LENGTH;
    long tokens = 0;
    for (int layer = 0; layer < counts.length; layer++) {
      LayerLayout shape = layout.layer(layer);
      counts[layer] = Arrays.copyOfRange(words, next, next + shape.experts());
      next += shape.experts();
      tokens = Math.max(tokens, RouteWindow.routes(counts[layer]) / shape.topK());
    }
    return new RouteWindow(Arrays.copyOf(words, Header.LENGTH), counts, tokens);
  }

  @Override
  public void reset(long epoch) {
    int[] header = new int[Header.LENGTH];
    header[Header.EPOCH.index()] = (int) epoch;
    header[Header.REQUEST.index()] = OWNER.request();
    header[Header.DEVICE.index()] = OWNER.device();
    counters.reset(header);
  }
}
