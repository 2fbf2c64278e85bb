package dev.expertbank.qmoe.boundary;

import dev.expertbank.memory.MemoryLease;
import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.PrefillStream;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.PrefillStreamMetrics;
import dev.expertbank.residency.ResidencyLayout;

/** The device's prefill stream and the memory that is claimed for it. */
final class Prefill implements AutoCloseable {
  private static final int SLOTS = 2;

  private final PrefillStream stream;
  private final MemoryLease lease;

  private Prefill(PrefillStream stream, MemoryLease lease) {
    this.stream = stream;
    this.lease = lease;
  }

  /**
   * Claims two slots of the largest expert beside the budget.
   *
   * @throws dev.expertbank.spi.EpException {@code memory.…} or {@code device.memory}
   */
  static Prefill open(BankBudget budget, Device device, ResidencyLayout layout) {
    long slotBytes = layout.layers().stream().mapToLong(LayerLayout::slotBytes).max().orElseThrow();
    MemoryLease lease = budget.claimStaging(device.tier(), Math.multiplyExact(SLOTS, slotBytes));
    try {
      return new Prefill(device.openPrefillStream(slotBytes), lease);
    } catch (RuntimeException | Error e) {
      lease.close();
      throw e;
    }
  }

  PrefillStreamMetrics metrics() {
    return stream.metrics();
  }

  @Override
  public void close() {
    // Memory that is lost stays claimed, so the governor reports it.
    if (stream.release()) {
      lease.close();
    }
  }
}
