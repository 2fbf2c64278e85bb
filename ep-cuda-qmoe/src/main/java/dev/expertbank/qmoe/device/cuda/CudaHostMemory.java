package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.memory.HostMemory;
import dev.expertbank.natives.Native;
import dev.expertbank.qmoe.device.Device.InPlace;
import dev.expertbank.qmoe.device.OwnPages;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;

/**
 * Memory of the host that the device reaches: page-locked memory of its own, and memory that others
 * own, registered page by page until a limit. Safe from any thread.
 */
final class CudaHostMemory implements AutoCloseable {
  /** The driver page-locks 1 GiB in 31 ms; in pieces, a refusal costs no more than that. */
  private static final long MAX_REGISTRATION_BYTES = 1L << 30;

  /** What {@code auto} leaves to everyone else on the machine. */
  private static final long RESERVE_BYTES = 2L << 30;

  private static final System.Logger LOG = System.getLogger(CudaHostMemory.class.getName());

  private final CudaContext context;
  private final long limit;
  private final String limitReached;
  private final TreeMap<Long, Registration> registrations = new TreeMap<>();
  private final List<Long> allocations = new ArrayList<>();
  private long registeredBytes;

  /** Why nothing more is registered; empty while nothing has been refused. */
  private String refusal = "";

  /** Whole pages that were registered in one call. */
  private record Registration(long address, long bytes, long deviceAddress) {
    long end() {
      return address + bytes;
    }
  }

  /**
   * Nothing registered yet.
   *
   * @param limit what may be registered, in bytes; empty for what is free now less a reserve
   */
  CudaHostMemory(CudaContext context, OptionalLong limit) {
    this.context = context;
    if (limit.isPresent()) {
      this.limit = limit.getAsLong();
      limitReached = "pin.limit of " + this.limit + " bytes is reached";
    } else {
      HostMemory.Free free = new HostMemory().free();
      this.limit = Math.max(0, free.bytes() - RESERVE_BYTES);
      limitReached =
          "pin.limit is reached: auto is "
              + this.limit
              + " bytes, "
              + free.bytes()
              + " from "
              + free.source()
              + " less "
              + RESERVE_BYTES;
    }
  }

  /**
   * Zeroed page-locked memory, at one address for host and device, until this is closed.
   *
   * @throws CudaException if there is none
   */
  synchronized MemorySegment allocate(long bytes) {
    try (var _ = context.makeCurrentRelaxed()) {
      long address = context.memory().allocateHost(bytes);
      allocations.add(address);
      return Native.view(address, bytes).fill((byte) 0);
    }
  }

  /**
   * Registers memory as far as that goes, until this is closed. The order of the calls decides what
   * is in and what is not.
   *
   * @param memory outlives this; of a file if {@link MemorySegment#isMapped()}; nothing that others
   *     use is in its first and last page
   * @return the part from its start on that the device can read, and why it is not all of it
   */
  synchronized InPlace open(MemorySegment memory) {
    long start = memory.address();
    long end = start + memory.byteSize();
    String reason = unable(memory.isMapped());
    if (reason.isEmpty()) {
      // The rest of a file's last page is mapped with it and reads as zero.
      reason =
          registerPages(pageOf(start), pageOf(end + OwnPages.PAGE_BYTES - 1), memory.isMapped());
    }
    return readable(start, end, reason);
  }

  private String unable(boolean file) {
    CudaDeviceInfo info = context.info();
    if (!info.registersHost()) {
      return info.label() + " cannot register memory of the host";
    }
    if (file && !info.registersReadOnly()) {
      return info.label() + " cannot register memory that is mapped read-only";
    }
    return "";
  }

  /** Registers what of a range of pages is not registered yet; why that stopped, if it did. */
  private String registerPages(long start, long end, boolean readOnly) {
    long next = start;
    while (next < end) {
      Map.Entry<Long, Registration> before = registrations.floorEntry(next);
      if (before != null && before.getValue().end() > next) {
        next = before.getValue().end();
        continue;
      }
      Long after = registrations.higherKey(next);
      long gap = (after == null ? end : Math.min(end, after)) - next;
      long bytes = Math.min(Math.min(gap, MAX_REGISTRATION_BYTES), pageOf(limit - registeredBytes));
      if (bytes <= 0) {
        return limitReached;
      }
      if (refusal.isEmpty()) {
        register(next, bytes, readOnly);
      }
      if (!refusal.isEmpty()) {
        return refusal;
      }
      next += bytes;
    }
    return "";
  }

  private void register(long address, long bytes, boolean readOnly) {
    CudaMemoryCalls memory = context.memory();
    try (var _ = context.makeCurrentRelaxed()) {
      memory.registerHost(address, bytes, readOnly);
      try {
        long deviceAddress =
            context.info().sharesHostAddresses() ? address : memory.deviceAddress(address);
        registrations.put(address, new Registration(address, bytes, deviceAddress));
        registeredBytes += bytes;
      } catch (CudaException e) {
        memory.unregisterHost(address);
        throw e;
      }
    } catch (CudaException e) {
      // The next range would be refused as well, each after the time that this one took.
      refusal = String.valueOf(e.getMessage());
      LOG.log(System.Logger.Level.WARNING, "no more memory can be registered", e);
    }
  }

  /** What of a range lies in registrations that follow each other, for the device as well. */
  private InPlace readable(long start, long end, String reason) {
    Map.Entry<Long, Registration> first = registrations.floorEntry(start);
    if (first == null || first.getValue().end() <= start) {
      return new InPlace(0, 0, reason);
    }
    Registration registration = first.getValue();
    long deviceStart = registration.deviceAddress() + (start - registration.address());
    long next = registration.end();
    while (next < end) {
      Registration following = registrations.get(next);
      if (following == null) {
        return new InPlace(deviceStart, next - start, reason);
      }
      if (following.deviceAddress() - deviceStart != next - start) {
        return new InPlace(
            deviceStart,
            next - start,
            context.info().label() + " maps registered memory to addresses that are apart");
      }
      next = following.end();
    }
    return new InPlace(deviceStart, end - start, "");
  }

  /**
   * How far a copy can read directly. A copy must not cross from one registration to the next, nor
   * from registered memory to other.
   *
   * @param bytes from the address on
   * @return positive: so many bytes are in one registration; negative: so many are in none
   */
  synchronized long run(long address, long bytes) {
    Map.Entry<Long, Registration> before = registrations.floorEntry(address);
    if (before != null && before.getValue().end() > address) {
      return Math.min(bytes, before.getValue().end() - address);
    }
    Long after = registrations.higherKey(address);
    return -(after == null ? bytes : Math.min(bytes, after - address));
  }

  /** Bytes that are registered. */
  synchronized long registeredBytes() {
    return registeredBytes;
  }

  private static long pageOf(long address) {
    return address & -OwnPages.PAGE_BYTES;
  }

  /** No kernel and no copy reads any of it any more. Closing twice is allowed. */
  @Override
  public synchronized void close() {
    try (var _ = context.makeCurrentRelaxed()) {
      for (Registration registration : registrations.values()) {
        quietly(() -> context.memory().unregisterHost(registration.address()));
      }
      registrations.clear();
      registeredBytes = 0;
      for (long address : allocations) {
        quietly(() -> context.memory().freeHost(address));
      }
      allocations.clear();
    }
  }

  /** One that cannot be given back keeps no other. */
  private static void quietly(Runnable call) {
    try {
      call.run();
    } catch (CudaException e) {
      LOG.log(System.Logger.Level.WARNING, "memory of the host stays page-locked", e);
    }
  }
}
