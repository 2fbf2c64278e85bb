package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.qmoe.device.QMoeSpecStruct;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.qmoe.QMoeInput.Role;
import dev.expertbank.spi.qmoe.QMoeSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The plans of one specification on one device, each made when a run first needs it. Safe from any
 * thread.
 */
final class CudaPlans {
  /** A run is split until its workspace is no larger. */
  private static final long MAX_WORKSPACE_BYTES = 256L << 20;

  private static final int MIN_RUN_TOKENS = 64;

  private final CudaKernels kernels;
  private final Arena arena;
  private final MemorySegment spec;
  private final MemorySegment limits;
  private final boolean zeroPoints;
  private final int maxRunTokens;
  private final Map<Integer, CudaPlan> byTokens = new ConcurrentHashMap<>();

  /**
   * Nothing planned yet.
   *
   * @param arena owns the plans
   * @param spec that the kernels compute
   * @param limits {@code eb_cuda_limits} of the device
   */
  CudaPlans(CudaKernels kernels, Arena arena, QMoeSpec spec, MemorySegment limits) {
    this.kernels = kernels;
    this.arena = arena;
    this.spec = QMoeSpecStruct.allocate(arena, spec);
    this.limits = limits;
    zeroPoints = hasZeroPoints(spec);
    maxRunTokens = chooseMaxRunTokens();
  }

  static boolean hasZeroPoints(QMoeSpec spec) {
    return spec.tensors().stream().anyMatch(tensor -> tensor.input().role() == Role.ZERO_POINTS);
  }

  private int chooseMaxRunTokens() {
    try (Arena temporary = Arena.ofConfined()) {
      int tokens = CudaPlanner.MAX_RUN_TOKENS;
      while (tokens > MIN_RUN_TOKENS
          && CudaPlan.workspaceBytes(plan(temporary, tokens)) > MAX_WORKSPACE_BYTES) {
        tokens /= 2;
      }
      return tokens;
    }
  }

  /** Tokens that one run may have. */
  int maxRunTokens() {
    return maxRunTokens;
  }

  /** The plan for a number of tokens, with its kernels loaded. */
  CudaPlan of(int tokens) {
    return byTokens.computeIfAbsent(
        tokens, count -> CudaPlan.of(plan(arena, count), kernels::function));
  }

  /** The plan for a number of tokens, if it has been made. */
  Optional<CudaPlan> made(int tokens) {
    return Optional.ofNullable(byTokens.get(tokens));
  }

  private MemorySegment plan(Arena owner, int tokens) {
    return CudaPlanner.plan(owner, spec, zeroPoints, tokens, limits)
        .orElseThrow(
            () ->
                new EpException(
                    "device.cuda", kernels.refusal() + " with " + tokens + " tokens in a run"));
  }
}
