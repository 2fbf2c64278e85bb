package dev.expertbank.qmoe.bank;

import dev.expertbank.memory.MappedAllowance;
import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.spi.EpException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;

/**
 * The slots of one bank. Free slots are kept for the next expert of their size class until another
 * class or a smaller allowance needs the room. What the device holds is never more than the
 * allowance has mapped. Confined to whoever holds the boundary.
 */
final class SlotArena {
  private static final System.Logger LOG = System.getLogger(SlotArena.class.getName());

  private static final int CLOSE_ATTEMPTS = 2;

  private final Device device;
  private final MappedAllowance allowance;
  private final TreeMap<Long, Deque<Slot>> free = new TreeMap<>();
  private final Set<Slot> held = new HashSet<>();

  SlotArena(Device device, MappedAllowance allowance) {
    this.device = device;
    this.allowance = allowance;
  }

  /** A slot of that size, if the allowance has room and the device has memory. */
  Optional<Slot> take(long bytes) {
    Deque<Slot> sameClass = free.get(bytes);
    if (sameClass != null && !sameClass.isEmpty()) {
      return Optional.of(sameClass.removeLast());
    }
    while (!allowance.tryMap(bytes)) {
      if (!releaseOne()) {
        return Optional.empty();
      }
    }
    try {
      Slot slot = device.commitSlot(bytes);
      held.add(slot);
      return Optional.of(slot);
    } catch (EpException e) {
      allowance.unmap(bytes);
      LOG.log(System.Logger.Level.WARNING, "no slot of " + bytes + " bytes", e);
      return Optional.empty();
    }
  }

  /** Nothing reads or writes the slot any more. */
  void giveBack(Slot slot) {
    free.computeIfAbsent(slot.bytes(), bytes -> new ArrayDeque<>()).addLast(slot);
  }

  /** Gives free slots back to the system until no more than that is mapped, as far as it goes. */
  void releaseDownTo(long bytes) {
    boolean released = true;
    while (released && allowance.mapped() > bytes) {
      released = releaseOne();
    }
  }

  private boolean releaseOne() {
    for (Deque<Slot> slots : free.values()) {
      if (!slots.isEmpty()) {
        return release(slots.removeLast());
      }
    }
    return false;
  }

  private boolean release(Slot slot) {
    try {
      device.releaseSlot(slot);
    } catch (EpException e) {
      giveBack(slot);
      LOG.log(System.Logger.Level.WARNING, "a slot stays with the bank", e);
      return false;
    }
    held.remove(slot);
    allowance.unmap(slot.bytes());
    return true;
  }

  /** Gives every slot back; nothing reads or writes any of them any more. */
  void close() {
    free.clear();
    for (int attempt = 0; attempt < CLOSE_ATTEMPTS && !held.isEmpty(); attempt++) {
      for (Slot slot : Set.copyOf(held)) {
        release(slot);
      }
    }
    if (!held.isEmpty()) {
      LOG.log(System.Logger.Level.WARNING, held.size() + " slots could not be given back");
    }
  }
}
