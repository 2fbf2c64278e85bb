package dev.expertbank.qmoe.device.cuda;

import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.function.IntToLongFunction;
import java.util.stream.IntStream;

/**
 * What a run of some number of tokens launches, in this order: {@code route}, then {@code compute}
 * for all experts or for some after others, then {@code combine}.
 *
 * @param struct {@code eb_cuda_plan}
 * @param workspaceBytes what the run needs of the device's memory
 */
record CudaPlan(
    MemorySegment struct,
    long workspaceBytes,
    List<Launch> route,
    List<Launch> compute,
    Launch combine) {
  private static final long WORKSPACE_BYTES =
      CudaPlanner.PLAN.byteOffset(PathElement.groupElement("workspace_bytes"));
  private static final long ROUTES =
      CudaPlanner.PLAN.byteOffset(PathElement.groupElement("routes"));
  private static final long RUN = CudaPlanner.PLAN.byteOffset(PathElement.groupElement("run"));
  private static final int COMPUTE_LAUNCHES = 2;

  /**
   * One launch.
   *
   * @param function the kernel
   * @param step {@code eb_cuda_run.step}
   */
  record Launch(long function, int step, LaunchShape shape) {
    private static final long STEP = offset("step");
    private static final long BLOCKS = offset("blocks");
    private static final long THREADS = offset("threads");
    private static final long SHARED_BYTES = offset("shared_bytes");

    private static Launch of(MemorySegment launch, IntToLongFunction functions) {
      return new Launch(
          functions.applyAsLong(launch.get(ValueLayout.JAVA_INT, 0)),
          launch.get(ValueLayout.JAVA_INT, STEP),
          LaunchShape.of(
              launch.get(ValueLayout.JAVA_INT, BLOCKS),
              launch.get(ValueLayout.JAVA_INT, THREADS),
              launch.get(ValueLayout.JAVA_INT, SHARED_BYTES)));
    }

    private static long offset(String field) {
      return CudaPlanner.LAUNCH.byteOffset(PathElement.groupElement(field));
    }
  }

  /**
   * A plan with its kernels.
   *
   * @param struct {@code eb_cuda_plan}
   * @param functions the kernel of a number
   */
  static CudaPlan of(MemorySegment struct, IntToLongFunction functions) {
    return new CudaPlan(
        struct,
        workspaceBytes(struct),
        launches(
            struct, "route", Math.toIntExact(struct.get(ValueLayout.JAVA_LONG, ROUTES)), functions),
        launches(struct, "compute", COMPUTE_LAUNCHES, functions),
        Launch.of(struct.asSlice(offset("combine"), CudaPlanner.LAUNCH.byteSize()), functions));
  }

  /** What a run of {@code eb_cuda_plan} needs of the device's memory. */
  static long workspaceBytes(MemorySegment struct) {
    return struct.get(ValueLayout.JAVA_LONG, WORKSPACE_BYTES);
  }

  /** The plan's {@code eb_cuda_run}, without addresses. */
  MemorySegment run() {
    return struct.asSlice(RUN, CudaRun.LAYOUT.byteSize());
  }

  private static List<Launch> launches(
      MemorySegment struct, String field, int count, IntToLongFunction functions) {
    long bytes = CudaPlanner.LAUNCH.byteSize();
    return IntStream.range(0, count)
        .mapToObj(i -> Launch.of(struct.asSlice(offset(field) + i * bytes, bytes), functions))
        .toList();
  }

  private static long offset(String field) {
    return CudaPlanner.PLAN.byteOffset(PathElement.groupElement(field));
  }
}
