package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.qmoe.bank.AddressTable;
import dev.expertbank.qmoe.device.CopyPiece;
import dev.expertbank.qmoe.device.LayerExperts;
import dev.expertbank.qmoe.device.PrefillStream;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.qmoe.device.SlotCopy;
import dev.expertbank.residency.DoubleBufferPlan;
import dev.expertbank.residency.DoubleBufferPlan.Step;
import dev.expertbank.residency.PrefillStreamMetrics;
import dev.expertbank.residency.ResidencyActions.FillEnd;
import dev.expertbank.spi.EpException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Streams experts through two slots: one is copied while the one before is computed on. The run
 * reads them through rows of its own, so the table stays what it is for everyone else. Serves one
 * run at a time. Another one reads meanwhile what it can read in place, and waits for the slots if
 * it needs an expert that it cannot.
 *
 * <p>A copy is waited for by the thread of the run, which has to know whether it failed; what
 * computes on a slot is waited for by the copy that overwrites it, on the device.
 */
final class CudaPrefillStream implements PrefillStream {
  private static final int SLOTS = 2;
  private static final int RELEASE_ATTEMPTS = 2;

  private static final System.Logger LOG = System.getLogger(CudaPrefillStream.class.getName());

  private final CudaDevice device;
  private final CudaContext context;
  private final CudaCalls calls;
  private final boolean readableToo;
  private final List<Slot> slots = new ArrayList<>();

  /** For each slot, happens when nothing computes on what it holds any more. */
  private final List<Long> unread = new ArrayList<>();

  private final ReentrantLock inUse = new ReentrantLock();
  private volatile PrefillStreamMetrics metrics = PrefillStreamMetrics.NONE;

  /** Set once a copy may still write to a slot: neither is used again. */
  private volatile boolean broken;

  /**
   * Takes two slots.
   *
   * @param readableToo whether prefill streams also experts that could be read in place
   * @throws EpException {@code device.memory} if there is no room
   */
  CudaPrefillStream(CudaDevice device, long slotBytes, boolean readableToo) {
    this.device = device;
    this.readableToo = readableToo;
    context = device.context();
    calls = context.calls();
    try (var _ = context.makeCurrentRelaxed()) {
      for (int i = 0; i < SLOTS; i++) {
        slots.add(device.commitSlot(slotBytes));
        unread.add(calls.createEvent());
      }
    } catch (EpException e) {
      giveBack();
      throw e;
    }
  }

  @Override
  public PrefillStreamMetrics metrics() {
    return metrics;
  }

  /** What a run needs of page-locked memory for {@link #compute}. */
  static long stagingBytes(int experts) {
    return CudaRun.stagedBytes((long) experts * Integer.BYTES)
        + CudaRun.stagedBytes(experts * AddressTable.ROW_BYTES);
  }

  /**
   * Launches what computes the experts of a run whose routes have been launched.
   *
   * @param experts the layer's
   * @param count of the layer's experts
   * @throws EpException {@code device.copy} if an expert could neither be read in place nor copied
   */
  void compute(CudaRun run, CudaPlan plan, LayerExperts experts, int count, int tokens) {
    MemorySegment counts = run.stage((long) count * Integer.BYTES);
    MemorySegment rows = run.stage(count * AddressTable.ROW_BYTES);
    run.readExpertCounts(counts);
    int[] active =
        IntStream.range(0, count)
            .filter(expert -> counts.getAtIndex(ValueLayout.JAVA_INT, expert) > 0)
            .toArray();
    boolean all = readableToo && tokens > CudaPlanner.MAX_DECODE_TOKENS;
    int[] cold =
        Arrays.stream(active)
            .filter(experts::isCold)
            .filter(expert -> all || !experts.isReadInPlace(expert))
            .toArray();
    boolean needed = !Arrays.stream(cold).allMatch(experts::isReadInPlace);
    if (cold.length == 0 || (broken && !needed)) {
      run.launch(plan.compute());
      return;
    }
    if (needed) {
      inUse.lock();
    } else if (!inUse.tryLock()) {
      add(new PrefillStreamMetrics(0, 0, 0, 0, cold.length));
      run.launch(plan.compute());
      return;
    }
    try {
      new Chunk(run, plan, experts, rows, cold, active[active.length - 1] + 1).stream();
    } finally {
      inUse.unlock();
    }
  }

  private synchronized void add(PrefillStreamMetrics more) {
    metrics = metrics.plus(more);
  }

  @Override
  public boolean release() {
    device.prefillStreamReleased(this);
    try (var _ = context.makeCurrentRelaxed()) {
      if (!Waiting.until(() -> unread.stream().allMatch(calls::hasHappened))) {
        LOG.log(System.Logger.Level.WARNING, "a run has not ended: slots of prefill are lost");
        return false;
      }
    } catch (CudaException e) {
      LOG.log(System.Logger.Level.WARNING, "slots of prefill are lost", e);
      return false;
    }
    if (broken && !device.awaitCopies()) {
      LOG.log(System.Logger.Level.WARNING, "a copy has not ended: slots of prefill are lost");
      return false;
    }
    return giveBack();
  }

  private boolean giveBack() {
    for (int attempt = 0; attempt < RELEASE_ATTEMPTS; attempt++) {
      slots.removeIf(this::isReleased);
    }
    try (var _ = context.makeCurrentRelaxed()) {
      unread.forEach(calls::destroyEvent);
    }
    return slots.isEmpty();
  }

  private boolean isReleased(Slot slot) {
    try {
      device.releaseSlot(slot);
      return true;
    } catch (EpException e) {
      LOG.log(System.Logger.Level.WARNING, "a slot of prefill stays", e);
      return false;
    }
  }

  /** One run on its way through the slots. */
  private final class Chunk {
    private final CudaRun run;
    private final CudaPlan plan;
    private final LayerExperts experts;
    private final MemorySegment rows;
    private final int[] cold;

    /** Behind the last expert that has routes. */
    private final int end;

    private final @Nullable SlotCopy[] copies = new @Nullable SlotCopy[SLOTS];
    private final long[] copiedBytes = new long[SLOTS];

    /** The first expert that is not computed yet. */
    private int next;

    Chunk(
        CudaRun run, CudaPlan plan, LayerExperts experts, MemorySegment rows, int[] cold, int end) {
      this.run = run;
      this.plan = plan;
      this.experts = experts;
      this.rows = rows;
      this.cold = cold;
      this.end = end;
    }

    void stream() {
      try {
        for (Step step : DoubleBufferPlan.plan(cold.length)) {
          switch (step) {
            case Step.Prefetch(int item, int buffer) -> prefetch(item, buffer);
            case Step.Await(int item) -> await(cold[item], item % SLOTS);
            case Step.Compute(int item, int buffer) -> {
              // In between are experts that are resident or read in place.
              computeUpTo(cold[item] + 1);
              calls.recordEvent(unread.get(buffer), run.stream());
            }
          }
        }
        if (next < end) {
          computeUpTo(end);
        }
      } finally {
        Arrays.stream(copies).forEach(this::drain);
      }
    }

    private void prefetch(int item, int buffer) {
      if (!broken) {
        try {
          List<CopyPiece> pieces = experts.pieces(cold[item]);
          copies[buffer] = device.copies().start(slots.get(buffer), pieces, unread.get(buffer));
          copiedBytes[buffer] = pieces.stream().mapToLong(piece -> piece.source().bytes()).sum();
        } catch (EpException e) {
          LOG.log(System.Logger.Level.WARNING, "an expert cannot be streamed", e);
        }
      }
    }

    private void await(int expert, int buffer) {
      SlotCopy copy = copies[buffer];
      copies[buffer] = null;
      long start = System.nanoTime();
      FillEnd ended = copy == null ? FillEnd.FAILED : copy.await();
      long waited = System.nanoTime() - start;
      if (copy != null && ended == FillEnd.COMPLETED) {
        // Entries of tensors that the node does not have stay NULL.
        MemorySegment row =
            rows.asSlice(expert * AddressTable.ROW_BYTES, AddressTable.ROW_BYTES).fill((byte) 0);
        experts.pointTo(rows, expert, slots.get(buffer));
        run.replaceRow(expert, row);
        add(new PrefillStreamMetrics(1, copiedBytes[buffer], copy.nanos(), waited, 0));
        return;
      }
      broken |= ended == FillEnd.MAY_BE_IN_FLIGHT;
      if (!experts.isReadInPlace(expert)) {
        throw new EpException(
            "device.copy",
            "expert "
                + expert
                + " can neither be read where it is nor be copied to "
                + context.info().label()
                + "; the log has the reason. With a larger pin.limit fewer experts are copied");
      }
      add(new PrefillStreamMetrics(0, 0, 0, waited, 1));
    }

    private void computeUpTo(int expert) {
      run.setExperts(next, expert);
      run.launch(plan.compute());
      next = expert;
    }

    /** A run that failed half way leaves no copy behind it. */
    private void drain(@Nullable SlotCopy copy) {
      if (copy != null && copy.await() == FillEnd.MAY_BE_IN_FLIGHT) {
        broken = true;
      }
    }
  }
}
