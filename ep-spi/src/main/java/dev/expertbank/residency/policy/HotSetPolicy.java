package dev.expertbank.residency.policy;

import dev.expertbank.residency.ExpertKey;
import dev.expertbank.residency.PolicySettings;
import dev.expertbank.residency.PolicySettings.PinSettings;
import dev.expertbank.residency.Ranking;
import dev.expertbank.residency.ResidencyDecision;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyPolicy;
import dev.expertbank.residency.ResidencyPolicyFactory;
import dev.expertbank.residency.ResidencySnapshot;
import dev.expertbank.spi.EpException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Pins a hot set, by list or by use, and leaves the rest of the budget to the others.
 *
 * <p>Pinned experts come first: those of the list in its order, then those that reach the
 * threshold, the most used first. The others follow by recency; or, scan-resistant, what is there
 * stays, and the whole bank fills up in order, since least-recently-used throws out everything in a
 * scan that is longer than the budget. Without any settings this is {@link WholeBankPolicy}.
 */
public final class HotSetPolicy implements ResidencyPolicy {
  /** The policy's name. */
  public static final String NAME = "hot-set";

  private final PinSettings pins;
  private final Set<ExpertKey> listed;
  private final WholeBankPolicy wholeBank;
  private final LruPolicy lru = new LruPolicy();

  /**
   * What decides whether an expert is pinned.
   *
   * @param usesPerRow the part of the rows that is routed to it
   * @param pinnedBytes slot bytes of what is pinned already
   */
  public record AdmissionInput(
      ExpertKey key, long slotBytes, double usesPerRow, long pinnedBytes) {}

  /**
   * @throws EpException {@code residency.pins} if the list names an expert that the model does not
   *     have or that cannot be moved
   */
  public HotSetPolicy(ResidencyLayout layout, PinSettings pins) {
    for (ExpertKey key : pins.keys()) {
      checkKey(layout, key);
    }
    this.pins = pins;
    listed = new HashSet<>(pins.keys());
    wholeBank = new WholeBankPolicy(layout);
  }

  private static void checkKey(ResidencyLayout layout, ExpertKey key) {
    int layers = layout.layers().size();
    if (key.layer() < 0 || key.layer() >= layers) {
      throw new EpException(
          "residency.pins", "layer %d is pinned; there are %d".formatted(key.layer(), layers));
    }
    int experts = layout.layer(key).experts();
    if (key.expert() < 0 || key.expert() >= experts) {
      throw new EpException(
          "residency.pins",
          "expert %d of layer %d is pinned; it has %d"
              .formatted(key.expert(), key.layer(), experts));
    }
    if (!layout.layer(key).isPageable()) {
      throw new EpException(
          "residency.pins",
          "layer %d is pinned, but its experts cannot be moved one by one".formatted(key.layer()));
    }
  }

  @Override
  public String name() {
    return NAME;
  }

  /** Whether an expert is pinned. */
  public boolean shouldPin(AdmissionInput input) {
    if (listed.contains(input.key())) {
      return true;
    }
    return pins.usesPerRow().isPresent()
        && pins.budgetBytes().isPresent()
        && input.usesPerRow() >= pins.usesPerRow().getAsDouble()
        && input.slotBytes() <= pins.budgetBytes().getAsLong() - input.pinnedBytes();
  }

  /** What happens to an expert that has a slot. */
  public EvictionClass evictionClass(boolean pinned) {
    return pinned || pins.scanResistant() ? EvictionClass.STABLE_RESIDENT : EvictionClass.LRU;
  }

  @Override
  public ResidencyDecision decide(ResidencySnapshot snapshot) {
    if (pins.equals(PinSettings.NONE)) {
      return wholeBank.decide(snapshot);
    }
    List<ExpertKey> ranked = new ArrayList<>();
    BitSet seen = new BitSet();
    pinned(snapshot).forEach(key -> add(snapshot, key, ranked, seen));
    if (evictionClass(false) == EvictionClass.STABLE_RESIDENT) {
      List<ExpertKey> everything = wholeBank.decide(snapshot).ranked();
      everything.stream()
          .filter(key -> snapshot.isHeld(snapshot.layout().index(key)))
          .forEach(key -> add(snapshot, key, ranked, seen));
      everything.forEach(key -> add(snapshot, key, ranked, seen));
    } else {
      lru.decide(snapshot).ranked().forEach(key -> add(snapshot, key, ranked, seen));
    }
    return new ResidencyDecision(ranked);
  }

  private static void add(
      ResidencySnapshot snapshot, ExpertKey key, List<ExpertKey> ranked, BitSet seen) {
    int index = snapshot.layout().index(key);
    if (!seen.get(index)) {
      seen.set(index);
      ranked.add(key);
    }
  }

  private List<ExpertKey> pinned(ResidencySnapshot snapshot) {
    ResidencyLayout layout = snapshot.layout();
    List<ExpertKey> pinned = new ArrayList<>(pins.keys());
    long bytes = pinned.stream().mapToLong(key -> layout.layer(key).slotBytes()).sum();
    for (ExpertKey key :
        Ranking.descending(
            layout, index -> snapshot.isPageable(index) ? snapshot.savings(index) : 0)) {
      long slotBytes = layout.layer(key).slotBytes();
      double uses = snapshot.usesPerRow(layout.index(key));
      if (!listed.contains(key) && shouldPin(new AdmissionInput(key, slotBytes, uses, bytes))) {
        pinned.add(key);
        bytes += slotBytes;
      }
    }
    return pinned;
  }

  /** Makes it for ServiceLoader. */
  public static final class Factory implements ResidencyPolicyFactory {
    @Override
    public String name() {
      return NAME;
    }

    @Override
    public ResidencyPolicy create(PolicySettings settings) {
      return new HotSetPolicy(settings.layout(), settings.pins());
    }
  }
}
