package dev.expertbank.state;

import dev.expertbank.memory.HolderId;
import dev.expertbank.memory.MemoryException;
import dev.expertbank.memory.MemoryGovernor;
import dev.expertbank.memory.MemoryLease;
import dev.expertbank.memory.MemoryRefusal;
import dev.expertbank.memory.MemoryRole;
import dev.expertbank.memory.Tier;
import dev.expertbank.memory.TierUsage;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Admits the memory of the state groups of one device. A group is charged once, when its runner is
 * made: the governor is asked first, then the buffers are allocated, and if that fails the claim is
 * given back. There is no way to a buffer without a claim; a ledger that should refuse nothing has
 * an unlimited governor and counts all the same.
 *
 * <p>Safe for use by any thread. No lock is held while the device allocates or frees.
 */
public final class StateLedger {
  private static final System.Logger LOG = System.getLogger(StateLedger.class.getName());

  private final MemoryGovernor governor;
  private final Tier tier;
  private final int deviceOrdinal;
  private final StateBuffers buffers;
  private final HolderId holder;

  private final Set<StateCharge> open = new LinkedHashSet<>();
  private long peakBytes;
  private long quarantinedBytes;
  private long charges;
  private long releases;
  private long chargeFailures;

  /**
   * @param tier where the device keeps the buffers: {@link Tier#HOST} for the host device
   * @param buffers allocates on the device with this ordinal
   */
  public StateLedger(MemoryGovernor governor, Tier tier, int deviceOrdinal, StateBuffers buffers) {
    this.governor = governor;
    this.tier = tier;
    this.deviceOrdinal = deviceOrdinal;
    this.buffers = buffers;
    this.holder = governor.newHolder("state groups");
  }

  /** A ledger that refuses no size, with books of its own. */
  public static StateLedger unlimited(Tier tier, int deviceOrdinal, StateBuffers buffers) {
    String device = tier + ":" + deviceOrdinal;
    return new StateLedger(MemoryGovernor.unlimited(device), tier, deviceOrdinal, buffers);
  }

  /**
   * Admits a state group and allocates its buffers. A refusal changes nothing but the count of
   * failures.
   *
   * @throws StateGroupException if the descriptor is not valid, is for another device, or the bytes
   *     do not fit
   * @throws MemoryException with {@link MemoryRefusal.AllocationFailed} if the device cannot
   *     allocate what was granted
   */
  public StateCharge charge(CsaStateGroupDescriptor descriptor, List<StateBufferRequest> requests) {
    descriptor
        .validate()
        .ifPresent(
            refusal -> {
              throw new StateGroupException(refusal);
            });
    if (descriptor.deviceOrdinal() != deviceOrdinal) {
      throw new StateGroupException(
          new StateRefusal.DeviceMismatch(descriptor.deviceOrdinal(), deviceOrdinal));
    }
    Map<StateByteClass, Long> bytesByClass = bytesByClass(requests);
    MemoryLease lease = reserve(descriptor, sum(bytesByClass));
    StateCharge charge = new StateCharge(this, descriptor, bytesByClass, lease);
    synchronized (this) {
      open.add(charge);
      charges++;
      peakBytes = Math.max(peakBytes, residentBytes());
    }
    charge.buffers = allocate(charge, requests);
    return charge;
  }

  private MemoryLease reserve(CsaStateGroupDescriptor descriptor, long bytes) {
    try {
      return governor.reserve(tier, bytes, MemoryRole.WORKSPACE, holder);
    } catch (MemoryException e) {
      synchronized (this) {
        chargeFailures++;
      }
      if (e.refusal() instanceof MemoryRefusal.TierExhausted full) {
        throw new StateGroupException(
            new StateRefusal.OutOfMemory(
                descriptor.requestId(), deviceOrdinal, bytes, full.used(), full.limit()),
            e);
      }
      throw e;
    }
  }

  private List<StateBuffer> allocate(StateCharge charge, List<StateBufferRequest> requests) {
    List<StateBuffer> allocated = new ArrayList<>(requests.size());
    for (StateBufferRequest request : requests) {
      try {
        allocated.add(buffers.allocate(request.chargedBytes()));
      } catch (RuntimeException | Error e) {
        charge.buffers = allocated;
        synchronized (this) {
          chargeFailures++;
        }
        release(charge);
        String what = "state " + request.byteClass() + " '" + request.name() + "'";
        throw new MemoryException(
            new MemoryRefusal.AllocationFailed(
                tier, request.chargedBytes(), MemoryRole.WORKSPACE, what),
            e);
      }
    }
    return Collections.unmodifiableList(allocated);
  }

  /**
   * Frees first, then forgets, then gives the claim back, so the bytes are never free too early.
   */
  void release(StateCharge charge) {
    synchronized (this) {
      if (charge.closed) {
        return;
      }
      charge.closed = true;
    }
    long notFreed = 0;
    for (StateBuffer buffer : charge.buffers.reversed()) {
      notFreed += free(charge, buffer);
    }
    synchronized (this) {
      open.remove(charge);
      releases++;
      quarantinedBytes += notFreed;
    }
    if (notFreed == 0) {
      charge.lease.close();
    } else {
      charge.lease.shrink(charge.lease.bytes() - notFreed);
    }
  }

  /** The bytes that could not be freed. */
  private static long free(StateCharge charge, StateBuffer buffer) {
    long bytes = buffer.bytes();
    try {
      buffer.close();
      return 0;
    } catch (RuntimeException e) {
      LOG.log(
          System.Logger.Level.ERROR,
          "freeing "
              + bytes
              + " bytes of the state of request "
              + charge.descriptor.requestId()
              + " failed; they stay claimed",
          e);
      return bytes;
    }
  }

  /** What is charged for one request now. */
  public synchronized long residentBytes(long requestId) {
    long bytes = 0;
    for (StateCharge charge : open) {
      if (charge.descriptor.requestId() == requestId) {
        bytes += charge.bytes();
      }
    }
    return bytes;
  }

  public synchronized StateLedgerMetrics metrics() {
    Map<StateByteClass, Long> byClass = new EnumMap<>(StateByteClass.class);
    for (StateByteClass byteClass : StateByteClass.values()) {
      byClass.put(byteClass, 0L);
    }
    open.forEach(
        charge ->
            charge.bytesByClass.forEach((each, bytes) -> byClass.merge(each, bytes, Long::sum)));
    return new StateLedgerMetrics(
        residentBytes(),
        peakBytes,
        Collections.unmodifiableMap(byClass),
        quarantinedBytes,
        charges,
        releases,
        chargeFailures);
  }

  /** The books of the device, which this ledger shares with every other holder. */
  public TierUsage deviceUsage() {
    return governor.usage(tier);
  }

  private long residentBytes() {
    long bytes = 0;
    for (StateCharge charge : open) {
      bytes += charge.bytes();
    }
    return bytes;
  }

  private Map<StateByteClass, Long> bytesByClass(List<StateBufferRequest> requests) {
    Map<StateByteClass, Long> byClass = new EnumMap<>(StateByteClass.class);
    try {
      long total = 0;
      for (StateBufferRequest request : requests) {
        total = Math.addExact(total, request.chargedBytes());
        byClass.merge(request.byteClass(), request.chargedBytes(), Long::sum);
      }
      return byClass;
    } catch (ArithmeticException e) {
      throw new MemoryException(
          new MemoryRefusal.InvalidRequest(
              tier, Long.MAX_VALUE, "the sizes of the buffers of a state group overflow."),
          e);
    }
  }

  static long sum(Map<StateByteClass, Long> byClass) {
    return byClass.values().stream().mapToLong(Long::longValue).sum();
  }
}
