package dev.expertbank.qmoe.device.host;

import dev.expertbank.qmoe.device.LayerExperts;
import dev.expertbank.qmoe.device.QMoeKernel;
import dev.expertbank.qmoe.device.QMoeSpecStruct;
import dev.expertbank.qmoe.device.RouteSink;
import dev.expertbank.spi.KernelContext;
import dev.expertbank.spi.KernelContext.Tensor;
import dev.expertbank.spi.qmoe.QMoeSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/** One node on the CPU: the C kernels, run on ONNX Runtime's intra-op threads. */
final class HostQMoeKernel implements QMoeKernel {
  private final HostDevice device;
  private final Arena arena = Arena.ofShared();
  private final MemorySegment specStruct;
  private final LayerExperts experts;
  private final int layer;
  private final int topK;
  private final long tokenBytes;
  private final long routerBytes;

  HostQMoeKernel(HostDevice device, QMoeSpec spec, LayerExperts experts, int layer) {
    this.device = device;
    this.specStruct = QMoeSpecStruct.allocate(arena, spec);
    this.experts = experts;
    this.layer = layer;
    this.topK = spec.topK();
    this.tokenBytes = spec.ioType().bytes(spec.hidden());
    this.routerBytes = spec.ioType().bytes(spec.experts());
  }

  @Override
  public void run(
      KernelContext context,
      Tensor input,
      Tensor router,
      @Nullable Tensor routerWeights,
      Tensor output,
      long tokens) {
    long inputAddress = input.data().address();
    long routerAddress = router.data().address();
    long weightsAddress = routerWeights == null ? 0 : routerWeights.data().address();
    long outputAddress = output.data().address();
    long chunk = Math.min(tokens, HostKernels.MAX_RUN_TOKENS);
    HostRun run = device.acquire(HostKernels.workspaceBytes(specStruct, chunk));
    HostPrefillStream stream = device.prefillStream();
    HostRouteCounters counters = device.routeCounters();
    long header = counters == null ? 0 : counters.header();
    run.setWindow(header, counters == null ? 0 : counters.counts(layer));
    try {
      for (long first = 0; first < tokens; first += chunk) {
        long count = Math.min(chunk, tokens - first);
        run.set(
            specStruct.address(),
            experts.table().rows().address(),
            inputAddress + first * tokenBytes,
            routerAddress + first * routerBytes,
            routerWeights == null ? 0 : weightsAddress + first * routerBytes,
            outputAddress + first * tokenBytes,
            count);
        prepare(run, Math.toIntExact(count));
        if (stream == null || !stream.compute(context, run, experts, count)) {
          context.parallelFor(HostKernels.FC1, run.fc1Tasks(), run.struct());
          context.parallelFor(HostKernels.FC2, run.fc2Tasks(), run.struct());
        }
      }
    } finally {
      device.release(run);
    }
  }

  private void prepare(HostRun run, int tokens) {
    RouteSink sink = device.routeSink();
    if (sink == null) {
      HostKernels.prepare(run.struct());
      return;
    }
    try (Arena recorded = Arena.ofConfined()) {
      MemorySegment selected = recorded.allocate(ValueLayout.JAVA_INT, (long) tokens * topK);
      run.setSelected(selected.address());
      HostKernels.prepare(run.struct());
      sink.routes(layer, selected.toArray(ValueLayout.JAVA_INT));
    } finally {
      run.setSelected(0);
    }
  }

  @Override
  public void close() {
    arena.close();
  }
}
