package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.qmoe.device.CopyPiece;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.FaultPlan.Operation;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.qmoe.device.SlotCopy;
import dev.expertbank.qmoe.device.WeightSource;
import dev.expertbank.qmoe.device.cuda.CudaCalls.HostCopy;
import dev.expertbank.residency.ResidencyActions.FillEnd;
import dev.expertbank.spi.EpException;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import org.jspecify.annotations.Nullable;

/**
 * Copies into slots on a stream of their own. What the device can read is handed to it whole by the
 * thread that starts the copy; everything else goes through {@link CudaStaging} on one thread. Safe
 * from any thread.
 */
final class CudaCopies implements AutoCloseable {
  /** The driver's events are addresses of its own. */
  private static final long NO_EVENT = 0;

  private static final System.Logger LOG = System.getLogger(CudaCopies.class.getName());

  private final CudaContext context;
  private final CudaCalls calls;
  private final CudaHostMemory hostMemory;
  private final CudaFaults faults;
  private final long stream;
  private final Set<CudaCopy> copies = ConcurrentHashMap.newKeySet();
  private final ExecutorService thread =
      Executors.newSingleThreadExecutor(
          Thread.ofPlatform().daemon().name("expertbank-cuda-copies").factory());

  /** The staging thread's, from its first copy on. */
  private volatile @Nullable CudaStaging staging;

  private boolean closed;

  /** No copies yet; context and memory outlive them. */
  CudaCopies(CudaContext context, CudaHostMemory hostMemory, FaultPlan faults) {
    this.context = context;
    this.hostMemory = hostMemory;
    this.faults = new CudaFaults(context.info().label(), faults);
    calls = context.calls();
    try (var _ = context.makeCurrentRelaxed()) {
      stream = calls.createStream();
    }
  }

  /**
   * What a copy consists of.
   *
   * @param direct what the device reads where it is
   * @param staged what goes through a buffer
   */
  private record Parts(List<HostCopy> direct, List<Staged> staged) {}

  private record Staged(long target, WeightSource source) {}

  /**
   * Starts a copy.
   *
   * @throws EpException {@code device.copy} if nothing is under way
   */
  SlotCopy start(Slot slot, List<CopyPiece> pieces) {
    return start(slot, pieces, NO_EVENT);
  }

  /**
   * Starts a copy that does not begin before an event has happened.
   *
   * @throws EpException {@code device.copy} if nothing is under way
   */
  SlotCopy start(Slot slot, List<CopyPiece> pieces, long after) {
    if (thread.isShutdown()) {
      throw new EpException("device.copy", context.info().label() + " is being closed");
    }
    Parts parts = new Parts(new ArrayList<>(), new ArrayList<>());
    pieces.forEach(piece -> split(slot.address() + piece.slotOffset(), piece.source(), parts));
    CudaCopy copy = null;
    try (var _ = context.makeCurrentRelaxed()) {
      copy = new CudaCopy();
      if (parts.staged().isEmpty()) {
        submit(copy, parts, after);
      } else {
        submitLater(copy, parts, after);
      }
      return copy;
    } catch (CudaException | IOException | RejectedExecutionException e) {
      if (copy == null || settle(copy)) {
        throw new EpException(
            "device.copy", "a copy into a slot could not be submitted: " + e.getMessage(), e);
      }
      LOG.log(System.Logger.Level.WARNING, "a copy into a slot may be under way", e);
      return copy;
    }
  }

  /** A copy must not cross the ends of what was registered in one call. */
  private void split(long target, WeightSource source, Parts parts) {
    long address = memory(source).address();
    for (long done = 0; done < source.bytes(); ) {
      long run = hostMemory.run(address + done, source.bytes() - done);
      if (run > 0) {
        parts.direct().add(new HostCopy(target + done, address + done, run));
      } else {
        parts.staged().add(new Staged(target + done, slice(source, done, -run)));
      }
      done += Math.abs(run);
    }
  }

  private static MemorySegment memory(WeightSource source) {
    return switch (source) {
      case WeightSource.InFile file -> file.mapped();
      case WeightSource.InMemory inMemory -> inMemory.memory();
    };
  }

  private static WeightSource slice(WeightSource source, long from, long bytes) {
    return switch (source) {
      case WeightSource.InFile file -> file.asSlice(from, bytes);
      case WeightSource.InMemory inMemory ->
          new WeightSource.InMemory(inMemory.memory().asSlice(from, bytes));
    };
  }

  private void submitLater(CudaCopy copy, Parts parts, long after) {
    if (faults.plan().fails(Operation.START_COPY)) {
      throw new RejectedExecutionException("a test wants it");
    }
    thread.execute(
        () -> {
          try (var _ = context.makeCurrentRelaxed()) {
            submit(copy, parts, after);
          } catch (IOException | RuntimeException | Error e) {
            LOG.log(System.Logger.Level.WARNING, "a copy into a slot failed", e);
            settle(copy);
          }
        });
  }

  private void submit(CudaCopy copy, Parts parts, long after) throws IOException {
    if (after != NO_EVENT) {
      calls.streamWaitsFor(stream, after);
    }
    record(copy.start);
    if (!parts.direct().isEmpty()) {
      faults.check(Operation.START_COPY, CudaFunction.MEMCPY_BATCH_ASYNC, copy.start);
      calls.copyToDevice(parts.direct(), stream);
    }
    for (Staged part : parts.staged()) {
      staging().copy(part.target(), part.source());
    }
    record(copy.end);
    copy.state = State.SUBMITTED;
  }

  private void record(long event) {
    faults.check(Operation.START_COPY, CudaFunction.EVENT_RECORD, event);
    calls.recordEvent(event, stream);
  }

  private CudaStaging staging() {
    CudaStaging made = staging;
    if (made == null) {
      made = new CudaStaging(calls, hostMemory, stream, faults);
      staging = made;
    }
    return made;
  }

  /**
   * Waits until nothing of a copy that was submitted in part is under way; false if that is not
   * known.
   */
  private boolean settle(CudaCopy copy) {
    try (var _ = context.makeCurrentRelaxed()) {
      if (Waiting.until(() -> calls.isStreamDone(stream))) {
        copies.remove(copy);
        copy.destroyEvents();
        copy.state = State.FAILED;
        return true;
      }
    } catch (CudaException e) {
      LOG.log(System.Logger.Level.WARNING, "copies cannot be waited for", e);
    }
    copy.state = State.UNKNOWN;
    return false;
  }

  /** How far a copy is known to be. */
  private enum State {
    STARTED,
    SUBMITTED,
    COMPLETED,
    /** Nothing of it is under way. */
    FAILED,
    /** Some of it may be under way. */
    UNKNOWN
  }

  private final class CudaCopy implements SlotCopy {
    private final long start;
    private final long end;
    private volatile State state = State.STARTED;
    private volatile long nanos;

    CudaCopy() {
      start = calls.createTimedEvent();
      try {
        end = calls.createTimedEvent();
      } catch (CudaException e) {
        calls.destroyEvent(start);
        throw e;
      }
      copies.add(this);
    }

    @Override
    public synchronized FillEnd await() {
      if (faults.plan().fails(Operation.AWAIT_COPY)) {
        return FillEnd.MAY_BE_IN_FLIGHT;
      }
      try (var _ = context.makeCurrentRelaxed()) {
        if (Waiting.until(this::hasEnded) && state == State.SUBMITTED) {
          complete();
        }
      } catch (CudaException e) {
        LOG.log(System.Logger.Level.WARNING, "a copy into a slot cannot be waited for", e);
      }
      return switch (state) {
        case COMPLETED -> FillEnd.COMPLETED;
        case FAILED -> FillEnd.FAILED;
        case STARTED, SUBMITTED, UNKNOWN -> FillEnd.MAY_BE_IN_FLIGHT;
      };
    }

    private boolean hasEnded() {
      return switch (state) {
        case STARTED -> false;
        case SUBMITTED -> calls.hasHappened(end);
        case COMPLETED, FAILED, UNKNOWN -> true;
      };
    }

    private void complete() {
      nanos = calls.elapsedNanos(start, end);
      state = faults.plan().fails(Operation.COPY) ? State.FAILED : State.COMPLETED;
      copies.remove(this);
      destroyEvents();
    }

    private void destroyEvents() {
      calls.destroyEvent(start);
      calls.destroyEvent(end);
    }

    @Override
    public long nanos() {
      return nanos;
    }
  }

  /** Takes no further copy and waits for those there are; false if one has not ended in time. */
  boolean finish() {
    thread.shutdown();
    try (var _ = context.makeCurrentRelaxed()) {
      return Waiting.until(thread::isTerminated) && Waiting.until(() -> calls.isStreamDone(stream));
    } catch (CudaException e) {
      LOG.log(System.Logger.Level.WARNING, "copies cannot be waited for", e);
      return false;
    }
  }

  /** Waits for copies. Closing twice is allowed. */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    if (!finish()) {
      LOG.log(System.Logger.Level.WARNING, "a copy has not ended: its stream stays");
      return;
    }
    try (var _ = context.makeCurrentRelaxed()) {
      copies.forEach(CudaCopy::destroyEvents);
      copies.clear();
      CudaStaging made = staging;
      if (made != null) {
        made.close();
      }
      calls.destroyStream(stream);
    }
  }
}
