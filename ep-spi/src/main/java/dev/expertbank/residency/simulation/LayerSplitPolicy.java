package dev.expertbank.residency.simulation;

import dev.expertbank.residency.ExpertKey;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.ResidencyDecision;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyPolicy;
import dev.expertbank.residency.ResidencySnapshot;
import java.util.ArrayList;
import java.util.List;

/**
 * Keeps the first layers, each whole or not at all: what one gets without residency per expert, to
 * compare with at equal bytes.
 */
public final class LayerSplitPolicy implements ResidencyPolicy {
  @Override
  public String name() {
    return "layer-split";
  }

  @Override
  public ResidencyDecision decide(ResidencySnapshot snapshot) {
    ResidencyLayout layout = snapshot.layout();
    List<ExpertKey> kept = new ArrayList<>();
    long room = snapshot.budgetBytes();
    for (int layer = 0; layer < layout.layers().size(); layer++) {
      LayerLayout shape = layout.layer(layer);
      long bytes = shape.slotBytes() * shape.experts();
      if (!shape.isPageable()) {
        continue;
      }
      if (bytes > room) {
        break;
      }
      room -= bytes;
      for (int expert = 0; expert < shape.experts(); expert++) {
        kept.add(new ExpertKey(layer, expert));
      }
    }
    return new ResidencyDecision(kept);
  }
}
