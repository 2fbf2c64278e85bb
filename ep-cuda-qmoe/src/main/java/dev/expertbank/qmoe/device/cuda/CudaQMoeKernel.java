package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.qmoe.device.CopyPiece;
import dev.expertbank.qmoe.device.LayerExperts;
import dev.expertbank.qmoe.device.QMoeKernel;
import dev.expertbank.qmoe.device.RouteSink;
import dev.expertbank.spi.KernelContext;
import dev.expertbank.spi.KernelContext.Tensor;
import dev.expertbank.spi.qmoe.QMoeSpec;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * One node on a GPU. Tensors on the GPU are used where they are, in ONNX Runtime's stream, and the
 * device may still be computing when a run returns. Tensors on the host go through page-locked
 * memory, and a run waits if its output is there.
 */
final class CudaQMoeKernel implements QMoeKernel {
  /** With more tokens, reading them over and over through the bus takes longer than a copy. */
  private static final int MAX_TOKENS_IN_PLACE = 64;

  private static final long NULL = 0;

  private final CudaDevice device;
  private final CudaPlans plans;
  private final LayerExperts experts;
  private final int layer;
  private final int expertCount;
  private final int topK;
  private final long tokenBytes;
  private final long routerBytes;

  /** The experts that cannot be read in place. */
  private final int[] unreadable;

  CudaQMoeKernel(
      CudaDevice device, CudaPlans plans, QMoeSpec spec, LayerExperts experts, int layer) {
    this.device = device;
    this.plans = plans;
    this.experts = experts;
    this.layer = layer;
    this.expertCount = spec.experts();
    this.topK = spec.topK();
    this.tokenBytes = spec.ioType().bytes(spec.hidden());
    this.routerBytes = spec.ioType().bytes(spec.experts());
    unreadable = IntStream.range(0, expertCount).filter(e -> !experts.isReadInPlace(e)).toArray();
    if (unreadable.length > 0) {
      device.reserveStagingSlots(packedBytes(experts.pieces(unreadable[0])));
    }
  }

  private static long packedBytes(List<CopyPiece> pieces) {
    return pieces.stream()
        .mapToLong(piece -> piece.slotOffset() + piece.source().bytes())
        .max()
        .orElseThrow();
  }

  /**
   * The rows of a tensor.
   *
   * @param staged whether it is on the host
   */
  private record Rows(Tensor tensor, long rowBytes, boolean staged) {
    long stagedBytes(int count) {
      return staged ? CudaRun.stagedBytes(count * rowBytes) : 0;
    }

    MemorySegment slice(long first, int count) {
      return tensor.data().asSlice(first * rowBytes, count * rowBytes);
    }
  }

  private record Tensors(Rows input, Rows router, @Nullable Rows routerWeights, Rows output) {
    long stagedInputBytes(int count) {
      return input.stagedBytes(count)
          + router.stagedBytes(count)
          + (routerWeights == null ? 0 : routerWeights.stagedBytes(count));
    }
  }

  @Override
  public void run(
      KernelContext kernelContext,
      Tensor input,
      Tensor router,
      @Nullable Tensor routerWeights,
      Tensor output,
      long tokens) {
    Tensors tensors =
        new Tensors(
            rows(input, tokenBytes),
            rows(router, routerBytes),
            routerWeights == null ? null : rows(routerWeights, routerBytes),
            rows(output, tokenBytes));
    try (var _ = device.makeCurrentForRuns()) {
      CudaRun run = device.acquireRun(kernelContext);
      try {
        long chunk = Math.min(tokens, plans.maxRunTokens());
        for (long first = 0; first < tokens; first += chunk) {
          chunk(run, tensors, first, (int) Math.min(chunk, tokens - first));
        }
        if (!tensors.output().staged()) {
          device.launched(run, layer);
        }
      } finally {
        device.runs().release(run);
      }
    }
  }

  private Rows rows(Tensor tensor, long rowBytes) {
    return new Rows(tensor, rowBytes, device.isOnHost(tensor));
  }

  private void chunk(CudaRun run, Tensors tensors, long first, int tokens) {
    CudaPlan plan = plan(run, tokens);
    CudaPrefillStream slots = slots(run, tokens);
    RouteSink sink = device.routeSink();
    long selectedBytes = sink == null ? 0 : (long) tokens * topK * Integer.BYTES;
    long inputBytes = tensors.stagedInputBytes(tokens);
    boolean copied = tokens > MAX_TOKENS_IN_PLACE || expertCount > CudaPlanner.MAX_SHARED_EXPERTS;
    run.begin(
        plan,
        expertCount,
        copied ? inputBytes : 0,
        inputBytes
            + tensors.output().stagedBytes(tokens)
            + CudaRun.stagedBytes(selectedBytes)
            + (slots == null ? 0 : CudaPrefillStream.stagingBytes(expertCount)));
    Rows weights = tensors.routerWeights();
    MemorySegment wanted = tensors.output().slice(first, tokens);
    MemorySegment output = tensors.output().staged() ? run.stage(wanted.byteSize()) : wanted;
    run.setAddresses(
        experts.table().rows().address(),
        address(run, tensors.input(), first, tokens, copied),
        address(run, tensors.router(), first, tokens, copied),
        weights == null ? NULL : address(run, weights, first, tokens, copied),
        output.address());
    run.setSlots(device.slotsBegin(), device.slotsEnd());
    CudaRouteCounters counters = device.routeCounters();
    if (counters != null) {
      run.setWindow(counters.header(), counters.counts(layer));
    }
    MemorySegment selected = run.stage(selectedBytes);
    if (sink != null) {
      run.setSelected(selected.address());
    }

    run.launch(plan.route());
    if (slots == null) {
      run.launch(plan.compute());
    } else {
      slots.compute(run, plan, experts, expertCount, tokens);
    }
    run.launch(plan.combine());

    if (tensors.output().staged()) {
      run.synchronize();
      wanted.copyFrom(output);
    }
    if (sink != null) {
      run.synchronize();
      sink.routes(layer, selected.toArray(ValueLayout.JAVA_INT));
    }
  }

  private CudaPlan plan(CudaRun run, int tokens) {
    return plans
        .made(tokens)
        .orElseGet(
            () -> {
              run.requireNoCapture("a run with as many tokens has to come before it");
              return plans.of(tokens);
            });
  }

  /** What streams experts of a run; null if it reads each where the table says. */
  private @Nullable CudaPrefillStream slots(CudaRun run, int tokens) {
    CudaPrefillStream open = device.prefillStream();
    if (unreadable.length > 0) {
      run.requireNoCapture(
          "layer "
              + layer
              + " has experts that the GPU cannot read where they are; a larger pin.limit may help");
      if (Arrays.stream(unreadable).anyMatch(experts::isCold)) {
        return open == null ? device.stagingSlots() : open;
      }
    }
    boolean streams =
        tokens > CudaPlanner.MAX_DECODE_TOKENS && !run.isCaptured() && !experts.isResident();
    return streams ? open : null;
  }

  /** Where kernels find some rows of an input. */
  private long address(CudaRun run, Rows rows, long first, int count, boolean copied) {
    MemorySegment slice = rows.slice(first, count);
    if (!rows.staged()) {
      return slice.address();
    }
    MemorySegment staged = run.stage(slice.byteSize()).copyFrom(slice);
    return copied ? run.copyToDevice(staged) : staged.address();
  }

  @Override
  public void close() {
    // Its plans are the device's.
  }
}
