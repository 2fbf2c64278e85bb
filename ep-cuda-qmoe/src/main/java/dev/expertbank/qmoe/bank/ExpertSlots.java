package dev.expertbank.qmoe.bank;

import dev.expertbank.memory.MappedAllowance;
import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.qmoe.device.SlotCopy;
import dev.expertbank.qmoe.events.FillEvent;
import dev.expertbank.qmoe.events.PublishEvent;
import dev.expertbank.residency.ExpertKey;
import dev.expertbank.residency.ResidencyActions;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.spi.EpException;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Moves experts between the model file and slots. Which of them are where is the ledger's; this
 * knows the slot of each that has one. Confined to whoever holds the boundary.
 */
public final class ExpertSlots implements ResidencyActions, AutoCloseable {
  private static final System.Logger LOG = System.getLogger(ExpertSlots.class.getName());

  private final ExpertBank bank;
  private final ResidencyLayout layout;
  private final Device device;
  private final SlotArena arena;
  private final Map<ExpertKey, Slot> slots = new HashMap<>();
  private final Map<ExpertKey, Fill> copies = new HashMap<>();
  private long waitNanos;

  /** A copy that has been started, and the event that it will be. */
  private record Fill(SlotCopy copy, FillEvent event) {}

  /**
   * No slots yet.
   *
   * @param allowance what slots may take; stays the caller's
   */
  public ExpertSlots(
      ExpertBank bank, ResidencyLayout layout, Device device, MappedAllowance allowance) {
    this.bank = bank;
    this.layout = layout;
    this.device = device;
    arena = new SlotArena(device, allowance);
  }

  @Override
  public FillStart startFill(ExpertKey key) {
    Optional<Slot> slot = arena.take(layout.layer(key).slotBytes());
    if (slot.isEmpty()) {
      return FillStart.NOT_SUBMITTED;
    }
    try {
      FillEvent event = new FillEvent();
      event.begin();
      copies.put(key, new Fill(device.startCopy(slot.get(), bank.pieces(key)), event));
    } catch (EpException e) {
      arena.giveBack(slot.get());
      LOG.log(System.Logger.Level.WARNING, key + " could not be copied", e);
      return FillStart.NOT_SUBMITTED;
    }
    slots.put(key, slot.get());
    return FillStart.STARTED;
  }

  @Override
  public FillEnd awaitFill(ExpertKey key) {
    Fill fill = copies.remove(key);
    if (fill == null) {
      throw new IllegalStateException(key + " is not being copied");
    }
    long start = System.nanoTime();
    FillEnd end = fill.copy().await();
    waitNanos += System.nanoTime() - start;
    commit(fill.event(), key, end);
    if (end == FillEnd.FAILED) {
      arena.giveBack(takeSlot(key));
    }
    return end;
  }

  @Override
  public void publish(ExpertKey key) {
    Slot slot = slots.get(key);
    if (slot == null) {
      throw new IllegalStateException(key + " has no slot");
    }
    bank.publish(key, slot);
    PublishEvent event = new PublishEvent();
    if (event.shouldCommit()) {
      event.layer = key.layer();
      event.expert = key.expert();
      event.commit();
    }
  }

  private void commit(FillEvent event, ExpertKey key, FillEnd end) {
    event.end();
    if (event.shouldCommit()) {
      event.layer = key.layer();
      event.expert = key.expert();
      event.bytes = layout.layer(key).expertBytes();
      event.end = end.name();
      event.commit();
    }
  }

  @Override
  public void unpublish(ExpertKey key) {
    bank.unpublish(key);
    arena.giveBack(takeSlot(key));
  }

  private Slot takeSlot(ExpertKey key) {
    Slot slot = slots.remove(key);
    if (slot == null) {
      throw new IllegalStateException(key + " has no slot");
    }
    return slot;
  }

  /** Gives free slots back to the system until no more than that is held, as far as it goes. */
  public void releaseDownTo(long bytes) {
    arena.releaseDownTo(bytes);
  }

  /** Time spent waiting for copies. */
  public long waitNanos() {
    return waitNanos;
  }

  /**
   * Ends all copies and gives every slot back; no run reads any more. A slot that a copy may still
   * be writing to is never given back: it is a leak, which the memory governor reports.
   */
  @Override
  public void close() {
    if (device.awaitCopies()) {
      arena.close();
    } else {
      LOG.log(System.Logger.Level.WARNING, "a copy has not ended: its memory is lost");
    }
  }
}
