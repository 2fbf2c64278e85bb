package dev.expertbank.residency;

import dev.expertbank.residency.LayerDegradation.Reason;
import dev.expertbank.spi.qmoe.Pageability;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The only place where a policy's decision becomes a plan. Never fails. */
public final class ResidencyPlanner {
  private ResidencyPlanner() {}

  /** Asks the policy and checks its answer; a policy that throws degrades every layer. */
  public static ResidencyPlan plan(ResidencyPolicy policy, ResidencySnapshot snapshot) {
    try {
      return validateDecision(snapshot.layout(), policy.decide(snapshot));
    } catch (RuntimeException | LinkageError e) {
      return degradeAll(snapshot.layout(), Reason.POLICY_FAILED, e.toString());
    }
  }

  /**
   * Checks a decision, expert by expert in the order given: the layer is pageable, it has that
   * expert, and the expert was not named before. The first violation degrades that layer alone.
   * That every expert of a pageable layer has a region is a property of its layout.
   *
   * <p>Layers that are not pageable are degraded with their own reason, named or not. So every
   * layer is whole, per expert or degraded, and only one of these.
   */
  public static ResidencyPlan validateDecision(ResidencyLayout layout, ResidencyDecision decision) {
    int layers = layout.layers().size();
    @Nullable LayerDegradation[] degraded = new LayerDegradation[layers];
    List<BitSet> seen = new ArrayList<>();
    for (int layer = 0; layer < layers; layer++) {
      seen.add(new BitSet());
      degraded[layer] = nonPageable(layout, layer).orElse(null);
    }
    for (ExpertKey key : decision.ranked()) {
      int layer = key.layer();
      if (layer < 0 || layer >= layers) {
        return degradeAll(layout, Reason.LAYER_RANGE, key + " of " + layers + " layers");
      }
      if (degraded[layer] == null) {
        degraded[layer] = check(layout, key, seen.get(layer)).orElse(null);
      }
    }
    return plan(layout, decision, degraded, seen);
  }

  private static ResidencyPlan plan(
      ResidencyLayout layout,
      ResidencyDecision decision,
      @Nullable LayerDegradation[] degraded,
      List<BitSet> seen) {
    List<LayerDegradation> reasons = new ArrayList<>();
    int whole = 0;
    for (int layer = 0; layer < degraded.length; layer++) {
      LayerDegradation reason = degraded[layer];
      if (reason != null) {
        reasons.add(reason);
      } else if (seen.get(layer).cardinality() == layout.layer(layer).experts()) {
        whole++;
      }
    }
    List<ExpertKey> ranked =
        reasons.isEmpty()
            ? decision.ranked()
            : decision.ranked().stream().filter(key -> degraded[key.layer()] == null).toList();
    return new ResidencyPlan(ranked, reasons, whole, degraded.length - reasons.size() - whole);
  }

  private static Optional<LayerDegradation> nonPageable(ResidencyLayout layout, int layer) {
    return layout.layer(layer).pageability() instanceof Pageability.NonPageable(var reason)
        ? Optional.of(new LayerDegradation(layer, Reason.NON_PAGEABLE, reason.text()))
        : Optional.empty();
  }

  private static Optional<LayerDegradation> check(
      ResidencyLayout layout, ExpertKey key, BitSet seen) {
    int experts = layout.layer(key).experts();
    if (key.expert() < 0 || key.expert() >= experts) {
      return Optional.of(
          new LayerDegradation(
              key.layer(),
              Reason.EXPERT_RANGE,
              "expert " + key.expert() + " of " + experts + " experts"));
    }
    if (seen.get(key.expert())) {
      return Optional.of(
          new LayerDegradation(
              key.layer(), Reason.DUPLICATE, "expert " + key.expert() + " is named twice"));
    }
    seen.set(key.expert());
    return Optional.empty();
  }

  private static ResidencyPlan degradeAll(ResidencyLayout layout, Reason reason, String detail) {
    List<LayerDegradation> degraded = new ArrayList<>();
    for (int layer = 0; layer < layout.layers().size(); layer++) {
      int at = layer;
      degraded.add(
          nonPageable(layout, layer).orElseGet(() -> new LayerDegradation(at, reason, detail)));
    }
    return new ResidencyPlan(List.of(), degraded, 0, 0);
  }
}
