package dev.expertbank.residency;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The one table of what is resident and what it takes of the budget.
 *
 * <p>Committed are the slots of all experts that are not {@link ResidencyState#COLD}. A fill never
 * takes them beyond the budget. Lowering the budget revokes nothing: it keeps fills out until
 * enough is evicted.
 *
 * <p>Confined to whoever holds the boundary. A transition that the states do not allow is an {@link
 * IllegalStateException} and changes nothing.
 */
public final class ResidencyLedger {
  private final ResidencyLayout layout;
  private final ResidencyState[] states;
  private final long[] residentSince;
  private final Map<Long, Integer> slotsByClass = new TreeMap<>();
  private final Map<ResidencyState, Integer> counts = new EnumMap<>(ResidencyState.class);
  private final int pageable;
  private long residentBytes;
  private long budgetBytes;
  private long committedBytes;
  private long quarantinedBytes;
  private long peakCommittedBytes;

  /** Everything is cold. */
  public ResidencyLedger(ResidencyLayout layout, long budgetBytes) {
    this.layout = layout;
    states = new ResidencyState[layout.keys().size()];
    Arrays.fill(states, ResidencyState.COLD);
    counts.put(ResidencyState.COLD, states.length);
    pageable = (int) layout.keys().stream().filter(key -> layout.layer(key).isPageable()).count();
    residentSince = new long[states.length];
    setBudget(budgetBytes);
  }

  public ResidencyLayout layout() {
    return layout;
  }

  public ResidencyState state(ExpertKey key) {
    return states[layout.index(key)];
  }

  /** The state of the expert with that index in the layout. */
  ResidencyState state(int index) {
    return states[index];
  }

  /** The boundary at which a resident expert was published. */
  long residentSince(int index) {
    return residentSince[index];
  }

  /** Every expert in that state, in the order of the layout. */
  public List<ExpertKey> keysIn(ResidencyState state) {
    List<ExpertKey> found = new ArrayList<>();
    for (int index = 0; index < states.length; index++) {
      if (states[index] == state) {
        found.add(layout.keys().get(index));
      }
    }
    return found;
  }

  /** How many experts are in that state. */
  public int count(ResidencyState state) {
    return counts.getOrDefault(state, 0);
  }

  /** Whether all that can be resident is, so that there is nothing left to move. */
  boolean isComplete() {
    return count(ResidencyState.RESIDENT) == pageable;
  }

  /** Bytes of the resident experts, without what their slots have beyond them. */
  public long residentBytes() {
    return residentBytes;
  }

  public long budgetBytes() {
    return budgetBytes;
  }

  /** Slot bytes of filling, resident and quarantined experts. */
  public long committedBytes() {
    return committedBytes;
  }

  /** The part of the committed bytes that no one can use. */
  public long quarantinedBytes() {
    return quarantinedBytes;
  }

  /** The most that was ever committed. */
  public long peakCommittedBytes() {
    return peakCommittedBytes;
  }

  /** Committed slots of one size class. */
  public int committedSlots(long slotBytes) {
    return slotsByClass.getOrDefault(slotBytes, 0);
  }

  /** Whether the budget has room for one more slot of the expert's size class. */
  public boolean fits(ExpertKey key) {
    return layout.layer(key).slotBytes() <= budgetBytes - committedBytes;
  }

  /**
   * Commits a slot for a copy that is about to start.
   *
   * @throws IllegalStateException if the expert is not cold, is not pageable or does not fit
   */
  public void startFill(ExpertKey key) {
    if (!layout.layer(key).isPageable()) {
      throw new IllegalStateException(key + " is not pageable");
    }
    if (!fits(key)) {
      throw new IllegalStateException(
          key + " does not fit: " + committedBytes + " of " + budgetBytes + " bytes committed");
    }
    move(key, ResidencyState.COLD, ResidencyState.FILLING);
    commit(key, 1);
  }

  /** The copy has arrived and runs may read it from now on. */
  public void publish(ExpertKey key, long boundary) {
    move(key, ResidencyState.FILLING, ResidencyState.RESIDENT);
    residentSince[layout.index(key)] = boundary;
  }

  /** The copy was not submitted, or it ended with an error: nothing writes to the slot any more. */
  public void failFill(ExpertKey key) {
    move(key, ResidencyState.FILLING, ResidencyState.COLD);
    commit(key, -1);
  }

  /** The copy failed in a way that leaves open whether it still writes: the slot stays charged. */
  public void quarantine(ExpertKey key) {
    move(key, ResidencyState.FILLING, ResidencyState.QUARANTINED);
    quarantinedBytes += layout.layer(key).slotBytes();
  }

  /** The device was reset, so nothing writes to the slot any more. */
  public void clearQuarantine(ExpertKey key) {
    move(key, ResidencyState.QUARANTINED, ResidencyState.COLD);
    quarantinedBytes -= layout.layer(key).slotBytes();
    commit(key, -1);
  }

  /** No run reads the slot any more. */
  public void evict(ExpertKey key) {
    move(key, ResidencyState.RESIDENT, ResidencyState.COLD);
    commit(key, -1);
  }

  /** Sets the limit for fills; may be lower than what is committed. */
  public void setBudget(long bytes) {
    if (bytes < 0) {
      throw new IllegalArgumentException("a budget of " + bytes + " bytes");
    }
    budgetBytes = bytes;
  }

  private void move(ExpertKey key, ResidencyState from, ResidencyState to) {
    int index = layout.index(key);
    if (states[index] != from) {
      throw new IllegalStateException(
          key + " is " + states[index] + ", not " + from + ": it cannot become " + to);
    }
    states[index] = to;
    counts.merge(from, -1, Integer::sum);
    counts.merge(to, 1, Integer::sum);
    long bytes = layout.layer(key).expertBytes();
    residentBytes += to == ResidencyState.RESIDENT ? bytes : 0;
    residentBytes -= from == ResidencyState.RESIDENT ? bytes : 0;
  }

  private void commit(ExpertKey key, int slots) {
    long slotBytes = layout.layer(key).slotBytes();
    committedBytes += slots * slotBytes;
    peakCommittedBytes = Math.max(peakCommittedBytes, committedBytes);
    slotsByClass.merge(slotBytes, slots, Integer::sum);
  }
}
