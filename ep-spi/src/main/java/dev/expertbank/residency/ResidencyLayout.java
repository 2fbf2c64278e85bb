package dev.expertbank.residency;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * All experts of a model, each with an index: layer by layer, from expert 0 on. Immutable.
 *
 * <p>Arrays with one entry per expert are addressed by that index.
 */
public final class ResidencyLayout {
  private final List<LayerLayout> layers;
  private final List<ExpertKey> keys;
  private final int[] firstIndex;

  /**
   * @throws IllegalArgumentException without layers
   * @throws ArithmeticException if the slots of all experts have more than {@link Long#MAX_VALUE}
   *     bytes
   */
  public ResidencyLayout(List<LayerLayout> layers) {
    if (layers.isEmpty()) {
      throw new IllegalArgumentException("a layout without layers");
    }
    this.layers = List.copyOf(layers);
    firstIndex = new int[layers.size()];
    List<ExpertKey> all = new ArrayList<>();
    long slotBytes = 0;
    for (int layer = 0; layer < layers.size(); layer++) {
      LayerLayout layout = layers.get(layer);
      firstIndex[layer] = all.size();
      slotBytes =
          Math.addExact(slotBytes, Math.multiplyExact(layout.slotBytes(), layout.experts()));
      for (int expert = 0; expert < layout.experts(); expert++) {
        all.add(new ExpertKey(layer, expert));
      }
    }
    keys = List.copyOf(all);
  }

  public List<LayerLayout> layers() {
    return layers;
  }

  public LayerLayout layer(int layer) {
    return layers.get(layer);
  }

  /** The layer of a key. */
  public LayerLayout layer(ExpertKey key) {
    return layers.get(key.layer());
  }

  /** Every expert, by index. */
  public List<ExpertKey> keys() {
    return keys;
  }

  /**
   * The index of a key in {@link #keys}.
   *
   * @throws IndexOutOfBoundsException if the model has no such expert
   */
  public int index(ExpertKey key) {
    return firstIndex[key.layer()]
        + Objects.checkIndex(key.expert(), layers.get(key.layer()).experts());
  }

  /** Slot bytes of all pageable experts: the budget that makes every one of them resident. */
  public long pageableSlotBytes() {
    return layers.stream()
        .filter(LayerLayout::isPageable)
        .mapToLong(layer -> layer.slotBytes() * layer.experts())
        .sum();
  }
}
