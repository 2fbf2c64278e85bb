package dev.expertbank.memory;

import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * The governors of this process, one per device: everyone who opens the same device shares one, so
 * two sessions cannot both spend the same memory.
 */
public final class MemoryGovernors {
  private static final System.Logger LOG = System.getLogger(MemoryGovernors.class.getName());
  private static final Map<String, Entry> OPEN = new TreeMap<>();

  private MemoryGovernors() {}

  /** Opens the governor of a device; a new one is unlimited. */
  public static Use forDevice(String deviceId) {
    return forDevice(deviceId, Map.of());
  }

  /**
   * Opens the governor of a device.
   *
   * @param initialLimits the limits of a new governor; one that is open already keeps its own, see
   *     {@link MemoryGovernor#setLimit}
   */
  public static Use forDevice(String deviceId, Map<Tier, Long> initialLimits) {
    synchronized (OPEN) {
      Entry entry = OPEN.get(deviceId);
      if (entry == null) {
        entry = new Entry(new MemoryGovernor(deviceId, initialLimits));
        OPEN.put(deviceId, entry);
      }
      entry.uses++;
      return new Use(deviceId, entry);
    }
  }

  /**
   * What has not been given back to governors that nobody uses any more, as a tree; empty if there
   * is nothing.
   */
  public static String leakReport() {
    synchronized (OPEN) {
      return OPEN.values().stream()
          .filter(entry -> entry.uses == 0)
          .map(entry -> entry.governor.leakReport())
          .filter(report -> !report.isEmpty())
          .collect(Collectors.joining("\n"));
    }
  }

  private static final class Entry {
    final MemoryGovernor governor;
    int uses;

    Entry(MemoryGovernor governor) {
      this.governor = governor;
    }
  }

  /** One user's hold on the governor of a device. */
  public static final class Use implements AutoCloseable {
    private final String deviceId;
    private final Entry entry;
    private boolean closed;

    private Use(String deviceId, Entry entry) {
      this.deviceId = deviceId;
      this.entry = entry;
    }

    public MemoryGovernor governor() {
      return entry.governor;
    }

    /**
     * Ends this use. When it was the last one the governor is forgotten, unless something was not
     * given back: its bytes are still in use, so the governor stays, keeps counting them for
     * whoever opens the device next, and is logged as a leak. Closing again does nothing.
     */
    @Override
    public void close() {
      String leak;
      synchronized (OPEN) {
        if (closed) {
          return;
        }
        closed = true;
        entry.uses--;
        if (entry.uses > 0) {
          return;
        }
        leak = entry.governor.leakReport();
        if (leak.isEmpty()) {
          OPEN.remove(deviceId);
        }
      }
      if (!leak.isEmpty()) {
        LOG.log(System.Logger.Level.WARNING, "Memory was not given back:\n" + leak);
      }
    }
  }
}
