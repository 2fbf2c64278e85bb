package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.natives.Native;
import dev.expertbank.qmoe.bank.AddressTable;
import dev.expertbank.qmoe.device.KernelLibrary;
import dev.expertbank.qmoe.device.QMoeSpecStruct;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Optional;

/**
 * The functions of {@code qmoe_cuda.h}, which say what to launch: plain C that needs no GPU.
 * Loading this class extracts and loads the library. Safe from any thread.
 */
final class CudaPlanner {
  /** {@code EB_CUDA_MAX_RUN_TOKENS}. */
  static final int MAX_RUN_TOKENS = 2048;

  /** {@code EB_CUDA_DECODE_COLUMNS}: a run of at most so many tokens is decode. */
  static final int MAX_DECODE_TOKENS = 8;

  /** {@code EB_CUDA_SHARED_EXPERTS}: the logits of more experts are read more than once. */
  static final int MAX_SHARED_EXPERTS = 512;

  /** {@code eb_cuda_launch}. */
  static final StructLayout LAUNCH =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_INT.withName("kernel"),
          ValueLayout.JAVA_INT.withName("step"),
          ValueLayout.JAVA_INT.withName("blocks"),
          ValueLayout.JAVA_INT.withName("threads"),
          ValueLayout.JAVA_INT.withName("shared_bytes"));

  /** {@code eb_cuda_plan}. */
  static final StructLayout PLAN =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_LONG.withName("workspace_bytes"),
          ValueLayout.JAVA_LONG.withName("routes"),
          MemoryLayout.sequenceLayout(2, LAUNCH).withName("route"),
          MemoryLayout.sequenceLayout(2, LAUNCH).withName("compute"),
          LAUNCH.withName("combine"),
          MemoryLayout.paddingLayout(4),
          CudaRun.LAYOUT.withName("run"));

  /** {@code eb_cuda_limits}. */
  private static final StructLayout LIMITS =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_INT.withName("multiprocessors"),
          ValueLayout.JAVA_INT.withName("shared_bytes_per_block"),
          ValueLayout.JAVA_INT.withName("shared_bytes_per_multiprocessor"));

  private static final KernelLibrary LIBRARY = new KernelLibrary("expertbank_qmoe_cuda");

  private static final MethodHandle PLAN_RUN =
      LIBRARY.link(
          "expertbank_cuda_plan",
          FunctionDescriptor.of(
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_INT,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG,
              ValueLayout.JAVA_LONG));

  private static final MethodHandle PLACE =
      LIBRARY.link(
          "expertbank_cuda_place",
          FunctionDescriptor.ofVoid(
              ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));

  private static final MethodHandle KERNEL_NAME =
      LIBRARY.link(
          "expertbank_cuda_kernel_name",
          FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT));

  static {
    LIBRARY.checkAbi(
        "expertbank_cuda_abi",
        AddressTable.ROW_BYTES,
        QMoeSpecStruct.LAYOUT.byteSize(),
        CudaRun.LAYOUT.byteSize(),
        PLAN.byteSize());
  }

  private CudaPlanner() {}

  /** {@code eb_cuda_limits} of a device. */
  static MemorySegment limits(Arena arena, CudaDeviceInfo info) {
    MemorySegment limits = arena.allocate(LIMITS);
    limits.setAtIndex(ValueLayout.JAVA_INT, 0, info.multiprocessors());
    limits.setAtIndex(ValueLayout.JAVA_INT, 1, info.sharedBytesPerBlock());
    limits.setAtIndex(ValueLayout.JAVA_INT, 2, info.sharedBytesPerMultiprocessor());
    return limits;
  }

  /**
   * What to launch for a number of tokens.
   *
   * @param arena owns the plan
   * @param spec {@code eb_qmoe_spec}
   * @param zeroPoints whether an expert has any
   * @param limits {@code eb_cuda_limits}
   * @return {@code eb_cuda_plan}; empty if the kernels do not compute it on such a device
   */
  static Optional<MemorySegment> plan(
      Arena arena, MemorySegment spec, boolean zeroPoints, long tokens, MemorySegment limits) {
    MemorySegment plan = arena.allocate(PLAN);
    int refused;
    try {
      refused =
          (int)
              PLAN_RUN.invokeExact(
                  spec.address(), zeroPoints ? 1 : 0, tokens, limits.address(), plan.address());
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
    return refused == 0 ? Optional.of(plan) : Optional.empty();
  }

  /**
   * Points a run of that plan to its workspace.
   *
   * @param workspace an address on the device
   * @param run {@code eb_cuda_run}
   */
  static void place(MemorySegment plan, long workspace, MemorySegment run) {
    try {
      PLACE.invokeExact(plan.address(), workspace, run.address());
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  /** The name of a kernel in its module. */
  static String kernelName(int kernel) {
    try {
      return Native.string((long) KERNEL_NAME.invokeExact(kernel));
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }
}
