package dev.expertbank.qmoe.device.host;

import dev.expertbank.natives.Native;
import dev.expertbank.qmoe.device.CopyPiece;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.qmoe.device.SlotCopy;
import dev.expertbank.qmoe.device.WeightSource;
import dev.expertbank.residency.ResidencyActions.FillEnd;
import dev.expertbank.spi.EpException;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Copies into slots on one thread, in the order in which they were started. Files are read straight
 * into the slot, so nothing is staged.
 */
final class HostCopies {
  /** After that a copy counts as one that may never end. */
  private static final Duration WAIT_LIMIT = Duration.ofSeconds(60);

  private static final System.Logger LOG = System.getLogger(HostCopies.class.getName());

  private final FaultPlan faults;
  private final ExecutorService thread =
      Executors.newSingleThreadExecutor(
          Thread.ofPlatform().daemon().name("expertbank-copies").factory());

  HostCopies(FaultPlan faults) {
    this.faults = faults;
  }

  SlotCopy start(Slot slot, List<CopyPiece> pieces) {
    if (faults.fails(FaultPlan.Operation.START_COPY)) {
      throw new EpException("device.copy", "a copy into a slot could not be submitted");
    }
    Future<Long> future;
    try {
      future = thread.submit(() -> copy(slot, pieces));
    } catch (RejectedExecutionException e) {
      throw new EpException("device.copy", "a copy into a slot could not be submitted: " + e, e);
    }
    return new HostCopy(future);
  }

  private final class HostCopy implements SlotCopy {
    private final Future<Long> copy;

    HostCopy(Future<Long> copy) {
      this.copy = copy;
    }

    @Override
    public FillEnd await() {
      return HostCopies.this.await(copy);
    }

    @Override
    public long nanos() {
      return copy.resultNow();
    }
  }

  private FillEnd await(Future<Long> copy) {
    if (faults.fails(FaultPlan.Operation.AWAIT_COPY)) {
      return FillEnd.MAY_BE_IN_FLIGHT;
    }
    boolean interrupted = false;
    long deadline = System.nanoTime() + WAIT_LIMIT.toNanos();
    try {
      while (true) {
        try {
          copy.get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
          return FillEnd.COMPLETED;
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } catch (ExecutionException e) {
      LOG.log(System.Logger.Level.WARNING, "a copy into a slot failed", e.getCause());
      return FillEnd.FAILED;
    } catch (TimeoutException e) {
      LOG.log(
          System.Logger.Level.WARNING, "a copy into a slot did not end within " + WAIT_LIMIT, e);
      return FillEnd.MAY_BE_IN_FLIGHT;
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Nanoseconds that it took. */
  private long copy(Slot slot, List<CopyPiece> pieces) throws IOException {
    long start = System.nanoTime();
    if (faults.fails(FaultPlan.Operation.COPY)) {
      throw new IOException("a copy into a slot failed on purpose");
    }
    MemorySegment memory = Native.view(slot.address(), slot.bytes());
    for (CopyPiece piece : pieces) {
      MemorySegment target = memory.asSlice(piece.slotOffset(), piece.source().bytes());
      switch (piece.source()) {
        case WeightSource.InMemory source -> target.copyFrom(source.memory());
        case WeightSource.InFile source -> source.read(0, target);
      }
    }
    return System.nanoTime() - start;
  }

  /** Takes no further copy and waits for those there are; false if one has not ended in time. */
  boolean finish() {
    thread.shutdown();
    boolean interrupted = false;
    long deadline = System.nanoTime() + WAIT_LIMIT.toNanos();
    try {
      while (true) {
        try {
          return thread.awaitTermination(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
