package dev.expertbank.qmoe.boundary;

import dev.expertbank.memory.AutoBudget;
import dev.expertbank.memory.MappedAllowance;
import dev.expertbank.memory.MappedGrowthGrant;
import dev.expertbank.memory.MemoryException;
import dev.expertbank.memory.MemoryGovernor;
import dev.expertbank.memory.MemoryGovernors;
import dev.expertbank.memory.MemoryLease;
import dev.expertbank.memory.MemoryRole;
import dev.expertbank.memory.Tier;
import dev.expertbank.qmoe.device.Device;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.spi.EpException;
import java.util.Map;

/** What one bank may take of a device's memory, claimed from the governor of the device. */
final class BankBudget implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger(BankBudget.class.getName());

  private final MemoryGovernors.Use use;
  private final MappedAllowance allowance;

  private BankBudget(MemoryGovernors.Use use, MappedAllowance allowance) {
    this.use = use;
    this.allowance = allowance;
  }

  /**
   * Claims a budget, at most what all experts take.
   *
   * @throws EpException {@code memory.budget} if it holds no expert, {@code memory.…} if the device
   *     has not so much to give
   */
  static BankBudget claim(MemoryBudget wanted, Device device, ResidencyLayout layout) {
    Device.FreeMemory free = device.freeMemory();
    MemoryGovernors.Use use =
        MemoryGovernors.forDevice(device.name(), Map.of(device.tier(), free.bytes()));
    try {
      MemoryGovernor governor = use.governor();
      long bytes = bytes(wanted, free, governor.usage(device.tier()).available(), layout);
      MappedAllowance allowance =
          governor.reserveMappedAllowance(
              device.tier(), bytes, MemoryRole.WEIGHTS, governor.newHolder("expert bank"));
      return new BankBudget(use, allowance);
    } catch (RuntimeException | Error e) {
      use.close();
      throw e;
    }
  }

  private static long bytes(
      MemoryBudget wanted, Device.FreeMemory free, long unclaimed, ResidencyLayout layout) {
    long all = layout.pageableSlotBytes();
    String explanation = "";
    long bytes;
    switch (wanted) {
      case MemoryBudget.Bytes stated -> bytes = Math.min(stated.bytes(), all);
      case MemoryBudget.Auto _ -> {
        AutoBudget auto =
            AutoBudget.of(free.bytes(), free.reserveBytes(), Math.min(all, unclaimed));
        bytes = auto.bytes();
        explanation = " (" + auto.explanation() + ", from " + free.source() + ")";
        LOG.log(System.Logger.Level.INFO, auto.explanation() + ", from " + free.source());
      }
      case MemoryBudget.Off _ -> throw new IllegalStateException("no budget to claim");
    }
    long smallest =
        layout.layers().stream().mapToLong(layer -> layer.slotBytes()).min().orElseThrow();
    if (bytes < smallest) {
      throw new EpException(
          "memory.budget",
          "a memory.budget of "
              + bytes
              + " bytes"
              + explanation
              + " holds no expert: the smallest takes "
              + smallest
              + " and all together take "
              + all
              + " bytes; give at least the first, or say off to read every expert in place");
    }
    return bytes;
  }

  MemoryGovernor governor() {
    return use.governor();
  }

  MappedAllowance allowance() {
    return allowance;
  }

  /**
   * Claims more: from what nobody has claimed, else from holders that can reclaim.
   *
   * @throws MemoryException if it cannot be had
   */
  void grow(long bytes) {
    try {
      allowance.raiseLimit(bytes);
    } catch (MemoryException e) {
      // A grant is for bytes that are mapped at once; these are mapped as slots need them.
      long room = allowance.available();
      long mapped = Math.addExact(room, bytes);
      try (MappedGrowthGrant grant = governor().prepareMappedGrowth(allowance, mapped)) {
        grant.commit(mapped);
        allowance.unmap(mapped);
      }
    }
  }

  /**
   * Claims memory beside the budget.
   *
   * @return the caller's to close
   * @throws MemoryException if it cannot be had
   */
  MemoryLease claimStaging(Tier tier, long bytes) {
    return governor()
        .reserve(tier, bytes, MemoryRole.WORKSPACE, governor().newHolder("prefill streaming"));
  }

  @Override
  public void close() {
    allowance.close();
    use.close();
  }
}
