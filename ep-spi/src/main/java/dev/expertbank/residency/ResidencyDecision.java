package dev.expertbank.residency;

import java.util.List;

/**
 * The experts that are worth a slot, the most valuable first, over all layers.
 *
 * <p>May be longer than the budget: the first that fit are the ones that get resident, and an
 * expert that is not among them leaves when its room is needed. An empty list keeps nothing.
 */
public record ResidencyDecision(List<ExpertKey> ranked) {
  public ResidencyDecision {
    ranked = List.copyOf(ranked);
  }
}
