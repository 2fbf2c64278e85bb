package dev.expertbank.residency;

import java.util.List;

/**
 * A decision after its checks.
 *
 * @param ranked what to keep resident, the most valuable first, without the degraded layers
 * @param degraded layers that are left as they are, in the order of the layers
 * @param wholeLayers layers of which every expert is ranked
 * @param perExpertLayers layers of which some or no experts are ranked
 */
public record ResidencyPlan(
    List<ExpertKey> ranked, List<LayerDegradation> degraded, int wholeLayers, int perExpertLayers) {
  public ResidencyPlan {
    ranked = List.copyOf(ranked);
    degraded = List.copyOf(degraded);
  }
}
