package dev.expertbank.model.cli;

import dev.expertbank.residency.ExpertKey;
import dev.expertbank.residency.HeatProfile;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.policy.StaticProfilePolicy;
import dev.expertbank.spi.qmoe.Pageability;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalDouble;

/**
 * Which experts a budget would hold.
 *
 * <p>With a profile they are taken as policy static-profile ranks them, and as a boundary does:
 * each one that still fits. Without, only their number is known; every layer gets its share, one
 * expert after the other.
 *
 * @param layers one for each layer of the layout
 * @param byteHitRate the part of the used bytes that would be resident, if the routes are those of
 *     the profile
 */
record PlannedResidency(long budgetBytes, List<Layer> layers, OptionalDouble byteHitRate) {
  PlannedResidency {
    layers = List.copyOf(layers);
  }

  /**
   * One layer.
   *
   * @param resident experts that would be, the most used first
   * @param unused experts that the profile has never seen used; 0 without a profile
   * @param use the part of its routes that goes to resident experts
   */
  record Layer(LayerLayout shape, List<Integer> resident, int unused, OptionalDouble use) {
    Layer {
      resident = List.copyOf(resident);
    }

    long residentSlotBytes() {
      return shape.slotBytes() * resident.size();
    }

    long residentExpertBytes() {
      return shape.expertBytes() * resident.size();
    }

    long expertBytes() {
      return shape.expertBytes() * shape.experts();
    }

    /** Experts that are used, or may be, and that the budget does not hold. */
    int withoutRoom() {
      return shape.isPageable() ? shape.experts() - resident.size() - unused : 0;
    }

    /** Why its experts stay where they are, whatever the budget. */
    Optional<String> obstacle() {
      return shape.pageability() instanceof Pageability.NonPageable(var reason)
          ? Optional.of(reason.text())
          : Optional.empty();
    }
  }

  static PlannedResidency of(
      ResidencyLayout layout, long budgetBytes, Optional<HeatProfile> profile) {
    List<ExpertKey> ranked =
        profile
            .map(known -> new StaticProfilePolicy(layout, known).decision().ranked())
            .orElseGet(() -> inTurn(layout));
    List<List<Integer>> resident = new ArrayList<>();
    layout.layers().forEach(_ -> resident.add(new ArrayList<>()));
    long room = budgetBytes;
    for (ExpertKey key : ranked) {
      long slotBytes = layout.layer(key).slotBytes();
      if (slotBytes <= room) {
        room -= slotBytes;
        resident.get(key.layer()).add(key.expert());
      }
    }
    List<Layer> layers = new ArrayList<>();
    double usedBytes = 0;
    double residentBytes = 0;
    for (int layer = 0; layer < resident.size(); layer++) {
      Layer planned = layer(layout, layer, resident.get(layer), profile);
      layers.add(planned);
      double bytes = (double) planned.shape().expertBytes() * planned.shape().topK();
      usedBytes += bytes;
      residentBytes += bytes * planned.use().orElse(0);
    }
    return new PlannedResidency(
        budgetBytes,
        layers,
        profile.isPresent()
            ? OptionalDouble.of(residentBytes / usedBytes)
            : OptionalDouble.empty());
  }

  private static Layer layer(
      ResidencyLayout layout, int layer, List<Integer> resident, Optional<HeatProfile> profile) {
    LayerLayout shape = layout.layer(layer);
    if (profile.isEmpty()) {
      return new Layer(shape, resident, 0, OptionalDouble.empty());
    }
    int unused = 0;
    double all = 0;
    double held = 0;
    for (int expert = 0; expert < shape.experts(); expert++) {
      double uses = profile.get().usesPerRow(layout.index(new ExpertKey(layer, expert)));
      all += uses;
      held += resident.contains(expert) ? uses : 0;
      unused += uses == 0 && !resident.contains(expert) && shape.isPageable() ? 1 : 0;
    }
    return new Layer(shape, resident, unused, OptionalDouble.of(all == 0 ? 0 : held / all));
  }

  private static List<ExpertKey> inTurn(ResidencyLayout layout) {
    int most = layout.layers().stream().mapToInt(LayerLayout::experts).max().orElseThrow();
    List<ExpertKey> keys = new ArrayList<>();
    for (int expert = 0; expert < most; expert++) {
      for (int layer = 0; layer < layout.layers().size(); layer++) {
        if (expert < layout.layer(layer).experts() && layout.layer(layer).isPageable()) {
          keys.add(new ExpertKey(layer, expert));
        }
      }
    }
    return keys;
  }

  int experts() {
    return layers.stream().mapToInt(layer -> layer.shape().experts()).sum();
  }

  int resident() {
    return layers.stream().mapToInt(layer -> layer.resident().size()).sum();
  }

  long residentSlotBytes() {
    return layers.stream().mapToLong(Layer::residentSlotBytes).sum();
  }

  /** Expert bytes of what would be resident. */
  long residentExpertBytes() {
    return layers.stream().mapToLong(Layer::residentExpertBytes).sum();
  }

  long expertBytes() {
    return layers.stream().mapToLong(Layer::expertBytes).sum();
  }
}
