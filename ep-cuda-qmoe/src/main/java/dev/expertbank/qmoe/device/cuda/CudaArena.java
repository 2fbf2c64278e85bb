package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.FaultPlan.Operation;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.spi.EpException;
import org.jspecify.annotations.Nullable;

/**
 * Slots in one reserved range of addresses, with memory behind those that are committed and behind
 * no other address: what is released is free on the device at once. Safe from any thread.
 *
 * <p>The handle of a slot's memory is given up as soon as the memory is mapped. From then on the
 * mapping alone keeps it, so that releasing a slot is one call, which fails or succeeds as a whole.
 */
final class CudaArena implements AutoCloseable {
  /**
   * Addresses cost nothing: with twice as many as the device has memory, slots of different sizes
   * that come and go leave room for one more.
   */
  private static final int ADDRESSES_PER_BYTE = 2;

  /** No handle: the driver's are addresses of its own. */
  private static final long NONE = 0;

  private static final System.Logger LOG = System.getLogger(CudaArena.class.getName());

  private final CudaContext context;
  private final CudaMemoryCalls memory;
  private final CudaFaults faults;
  private final long granularity;
  private final long start;
  private final long bytes;
  private final AddressRanges ranges;
  private boolean closed;

  /** No slots yet; the context outlives the arena. */
  CudaArena(CudaContext context, FaultPlan faults) {
    this.context = context;
    this.faults = new CudaFaults(context.info().label(), faults);
    memory = context.memory();
    try (var _ = context.makeCurrentRelaxed()) {
      granularity = memory.granularity();
      bytes =
          Math.ceilDiv(ADDRESSES_PER_BYTE * context.info().memoryBytes(), granularity)
              * granularity;
      start = memory.reserveAddresses(bytes);
    }
    ranges = new AddressRanges(start, bytes);
  }

  /** The lowest address of a slot. */
  long begin() {
    return start;
  }

  /** Every slot ends before it. */
  long end() {
    return start + bytes;
  }

  /** The size of slots is a multiple of it. */
  long granularity() {
    return granularity;
  }

  /**
   * Takes memory of the device. Its content is whatever it was.
   *
   * @throws EpException {@code device.memory} if there is none; nothing has changed then
   */
  synchronized Slot commit(long slotBytes) {
    if (slotBytes <= 0 || slotBytes % granularity != 0) {
      throw new IllegalArgumentException(slotBytes + " is no multiple of " + granularity);
    }
    long address = ranges.take(slotBytes).orElseThrow(() -> noMemory(slotBytes, null));
    long handle = NONE;
    boolean mapped = false;
    try (var _ = context.makeCurrentRelaxed()) {
      faults.check(Operation.COMMIT_SLOT, CudaFunction.MEM_CREATE, slotBytes);
      handle = memory.create(slotBytes);
      faults.check(Operation.COMMIT_SLOT, CudaFunction.MEM_MAP, address);
      memory.map(address, slotBytes, handle);
      mapped = true;
      faults.check(Operation.COMMIT_SLOT, CudaFunction.MEM_SET_ACCESS, address);
      memory.setAccess(address, slotBytes);
      faults.check(Operation.COMMIT_SLOT, CudaFunction.MEM_RELEASE, handle);
      memory.release(handle);
      return new Slot(address, slotBytes);
    } catch (CudaException e) {
      undo(address, slotBytes, handle, mapped);
      throw noMemory(slotBytes, e);
    }
  }

  private void undo(long address, long slotBytes, long handle, boolean mapped) {
    try (var _ = context.makeCurrentRelaxed()) {
      boolean unmapped = !mapped || succeeds(() -> memory.unmap(address, slotBytes));
      if (handle != NONE) {
        succeeds(() -> memory.release(handle));
      }
      // Addresses that still have memory behind them are lost, and nothing else with them.
      if (unmapped) {
        ranges.giveBack(address, slotBytes);
      }
    }
  }

  private static boolean succeeds(Runnable call) {
    try {
      call.run();
      return true;
    } catch (CudaException e) {
      LOG.log(System.Logger.Level.WARNING, "memory of a slot is lost", e);
      return false;
    }
  }

  /**
   * Gives a slot's memory back to the device; nothing reads or writes it any more.
   *
   * @throws EpException {@code device.memory} if that failed; the slot is as before
   */
  synchronized void release(Slot slot) {
    try (var _ = context.makeCurrentRelaxed()) {
      faults.check(Operation.RELEASE_SLOT, CudaFunction.MEM_UNMAP, slot.address());
      memory.unmap(slot.address(), slot.bytes());
    } catch (CudaException e) {
      throw new EpException(
          "device.memory", "a slot could not be given back to the device: " + e.getMessage(), e);
    }
    ranges.giveBack(slot.address(), slot.bytes());
  }

  private EpException noMemory(long slotBytes, @Nullable CudaException cause) {
    return new EpException(
        "device.memory",
        context.info().label()
            + " has no "
            + slotBytes
            + " bytes for a slot: "
            + (cause == null ? "no addresses in a row" : cause.getMessage()),
        cause);
  }

  /** Every slot has been released. Closing twice is allowed. */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    if (!ranges.isWhole()) {
      LOG.log(
          System.Logger.Level.WARNING,
          "slots of " + context.info().label() + " are lost until its context ends");
      return;
    }
    try (var _ = context.makeCurrentRelaxed()) {
      memory.freeAddresses(start, bytes);
    }
  }
}
