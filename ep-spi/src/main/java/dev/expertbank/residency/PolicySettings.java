package dev.expertbank.residency;

import java.util.List;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;

/**
 * What a policy is made with. A policy takes what it needs.
 *
 * @param layout of the bank
 * @param profile of earlier runs of the model
 * @param pins what never has to leave
 */
public record PolicySettings(
    ResidencyLayout layout, Optional<HeatProfile> profile, PinSettings pins) {

  /** Settings without a profile and without pins. */
  public PolicySettings(ResidencyLayout layout) {
    this(layout, Optional.empty(), PinSettings.NONE);
  }

  /**
   * Which experts are pinned. Those of the list are, whatever they take. Of the others none is,
   * unless both the threshold and the budget are set; then those that reach the threshold are, as
   * far as the budget goes.
   *
   * @param keys in the order of their importance
   * @param usesPerRow the threshold: the part of the rows that is routed to an expert
   * @param budgetBytes slot bytes of all pinned experts together
   * @param scanResistant whether experts that are not pinned stay until a pinned one needs the room
   */
  public record PinSettings(
      List<ExpertKey> keys,
      OptionalDouble usesPerRow,
      OptionalLong budgetBytes,
      boolean scanResistant) {
    /** Nothing is pinned. */
    public static final PinSettings NONE =
        new PinSettings(List.of(), OptionalDouble.empty(), OptionalLong.empty(), false);

    public PinSettings {
      keys = keys.stream().distinct().toList();
    }
  }
}
