package dev.expertbank.qmoe.device.cuda;

import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;

/** The free parts of a range of addresses, by their first address. For one thread at a time. */
final class AddressRanges {
  private final long bytes;
  private final TreeMap<Long, Long> free = new TreeMap<>();

  AddressRanges(long address, long bytes) {
    this.bytes = bytes;
    free.put(address, bytes);
  }

  /** Takes the first part that is long enough. */
  OptionalLong take(long wanted) {
    Optional<Map.Entry<Long, Long>> part =
        free.entrySet().stream().filter(entry -> entry.getValue() >= wanted).findFirst();
    if (part.isEmpty()) {
      return OptionalLong.empty();
    }
    long address = part.get().getKey();
    long length = part.get().getValue();
    free.remove(address);
    if (length > wanted) {
      free.put(address + wanted, length - wanted);
    }
    return OptionalLong.of(address);
  }

  /** Gives a part back that was taken; joins it with its neighbours. */
  void giveBack(long address, long taken) {
    long start = address;
    long length = taken;
    Map.Entry<Long, Long> before = free.lowerEntry(start);
    if (before != null && before.getKey() + before.getValue() == start) {
      start = before.getKey();
      length += before.getValue();
    }
    Long after = free.remove(address + taken);
    if (after != null) {
      length += after;
    }
    free.put(start, length);
  }

  /** Whether nothing is taken. */
  boolean isWhole() {
    return free.firstEntry() != null && free.firstEntry().getValue() == bytes;
  }
}
