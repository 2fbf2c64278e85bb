package dev.expertbank.qmoe.device;

import dev.expertbank.residency.RouteWindow;
import java.util.List;

/** Where the counters of each layer are in the record that {@link RouteCounters} describes. */
public final class RouteRecord {
  private final long[] layerOffset;
  private final long byteSize;

  /**
   * The layout of a model's record.
   *
   * @param experts of each layer
   */
  public RouteRecord(List<Integer> experts) {
    layerOffset = new long[experts.size()];
    long words = RouteWindow.Header.LENGTH;
    for (int layer = 0; layer < layerOffset.length; layer++) {
      layerOffset[layer] = words * Integer.BYTES;
      words += experts.get(layer);
    }
    byteSize = words * Integer.BYTES;
  }

  /** The size of the record in bytes. */
  public long byteSize() {
    return byteSize;
  }

  /** The offset of a layer's first counter in bytes. */
  public long offset(int layer) {
    return layerOffset[layer];
  }
}
