package dev.expertbank.qmoe.device.host;

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
import dev.expertbank.spi.KernelContext;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Streams the cold experts of a prefill chunk through two slots: one is copied while the one before
 * is computed on. The run reads them through rows of its own, so the table stays what it is for
 * everyone else. Serves one run at a time; another one reads its experts in place meanwhile.
 */
final class HostPrefillStream implements PrefillStream {
  /** With fewer tokens a run is decode: each expert serves too few tokens to hide its copy. */
  private static final long MIN_TOKENS = 16;

  private static final System.Logger LOG = System.getLogger(HostPrefillStream.class.getName());

  private final HostDevice device;
  private final List<Slot> slots;
  private final AtomicBoolean inUse = new AtomicBoolean();
  private volatile PrefillStreamMetrics metrics = PrefillStreamMetrics.NONE;

  /** Set once a copy may still write to a slot: neither is used again. */
  private volatile boolean broken;

  HostPrefillStream(HostDevice device, long slotBytes) {
    this.device = device;
    Slot first = device.commitSlot(slotBytes);
    try {
      this.slots = List.of(first, device.commitSlot(slotBytes));
    } catch (EpException e) {
      device.releaseSlot(first);
      throw e;
    }
  }

  @Override
  public PrefillStreamMetrics metrics() {
    return metrics;
  }

  /**
   * Computes a prepared run.
   *
   * @return false if there was nothing to stream or the slots are in use: nothing was computed
   */
  boolean compute(KernelContext context, HostRun run, LayerExperts experts, long tokens) {
    if (tokens < MIN_TOKENS || broken) {
      return false;
    }
    int[] active = run.activeExperts();
    int[] cold = IntStream.range(0, active.length).filter(i -> experts.isCold(active[i])).toArray();
    if (cold.length == 0) {
      return false;
    }
    if (!inUse.compareAndSet(false, true)) {
      add(new PrefillStreamMetrics(0, 0, 0, 0, cold.length));
      return false;
    }
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment rows = arena.allocate(experts.table().rows().byteSize(), Long.BYTES);
      rows.copyFrom(experts.table().rows());
      run.setRows(rows.address());
      new Chunk(context, run, experts, rows, active, cold).stream();
    } finally {
      inUse.set(false);
    }
    return true;
  }

  private synchronized void add(PrefillStreamMetrics more) {
    metrics = metrics.plus(more);
  }

  @Override
  public boolean release() {
    device.prefillStreamReleased();
    if (broken && !device.awaitCopies()) {
      LOG.log(System.Logger.Level.WARNING, "a copy has not ended: the slots of prefill are lost");
      return false;
    }
    boolean released = true;
    for (Slot slot : slots) {
      try {
        device.releaseSlot(slot);
      } catch (EpException e) {
        LOG.log(System.Logger.Level.WARNING, "a slot of prefill is lost", e);
        released = false;
      }
    }
    return released;
  }

  /** One chunk on its way through the slots. */
  private final class Chunk {
    private final KernelContext context;
    private final HostRun run;
    private final LayerExperts experts;
    private final MemorySegment rows;
    private final int[] active;
    private final int[] cold;
    private final @Nullable SlotCopy[] copies = new @Nullable SlotCopy[2];
    private final long[] copiedBytes = new long[copies.length];

    /** The first active expert that is not computed yet. */
    private int next;

    Chunk(
        KernelContext context,
        HostRun run,
        LayerExperts experts,
        MemorySegment rows,
        int[] active,
        int[] cold) {
      this.context = context;
      this.run = run;
      this.experts = experts;
      this.rows = rows;
      this.active = active;
      this.cold = cold;
    }

    void stream() {
      try {
        for (Step step : DoubleBufferPlan.plan(cold.length)) {
          switch (step) {
            // The plan has computed on the buffer's last item before, so nothing reads it.
            case Step.Prefetch(int item, int buffer) -> prefetch(item, buffer);
            case Step.Await(int item) -> await(item, item % copies.length);
            case Step.Compute(int item, int _) -> computeUpTo(cold[item] + 1);
          }
        }
        if (next < active.length) {
          computeUpTo(active.length);
        }
      } finally {
        Arrays.stream(copies).forEach(this::drain);
      }
    }

    private void prefetch(int item, int buffer) {
      if (!broken) {
        try {
          List<CopyPiece> pieces = experts.pieces(active[cold[item]]);
          copies[buffer] = device.startCopy(slots.get(buffer), pieces);
          copiedBytes[buffer] = pieces.stream().mapToLong(piece -> piece.source().bytes()).sum();
        } catch (EpException e) {
          LOG.log(System.Logger.Level.WARNING, "an expert is read in place", e);
        }
      }
    }

    private void await(int item, int buffer) {
      SlotCopy copy = copies[buffer];
      copies[buffer] = null;
      if (copy == null) {
        add(new PrefillStreamMetrics(0, 0, 0, 0, 1));
        return;
      }
      long start = System.nanoTime();
      FillEnd end = copy.await();
      long waited = System.nanoTime() - start;
      if (end == FillEnd.COMPLETED) {
        experts.pointTo(rows, active[cold[item]], slots.get(buffer));
        add(new PrefillStreamMetrics(1, copiedBytes[buffer], copy.nanos(), waited, 0));
      } else {
        broken |= end == FillEnd.MAY_BE_IN_FLIGHT;
        add(new PrefillStreamMetrics(0, 0, 0, waited, 1));
      }
    }

    private void computeUpTo(int end) {
      context.parallelFor(HostKernels.FC1, run.setStage(next, end), run.struct());
      context.parallelFor(HostKernels.FC2, run.fc2Tasks(), run.struct());
      next = end;
    }

    /** A run that failed half way leaves no copy behind it. */
    private void drain(@Nullable SlotCopy copy) {
      if (copy != null && copy.await() == FillEnd.MAY_BE_IN_FLIGHT) {
        broken = true;
      }
    }
  }
}
