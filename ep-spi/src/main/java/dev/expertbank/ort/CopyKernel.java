package dev.expertbank.ort;

import static dev.expertbank.ort.OrtStructField.KERNEL_COMPUTE;
import static dev.expertbank.ort.OrtStructField.KERNEL_IMPL_BYTES;
import static dev.expertbank.ort.OrtStructField.KERNEL_RELEASE;

import dev.expertbank.natives.Native;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.KernelContext.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.util.Map;

/**
 * One of the copies between the host and the GPU that ONNX Runtime adds to a graph: an {@code
 * OrtKernelImpl} that ONNX Runtime holds until it calls Release.
 *
 * <p>ONNX Runtime gives all copies of a graph to the first provider whose memory is not the host's,
 * whoever needs them. Where that provider has no kernel for them, its CPU provider takes the node:
 * it hands host tensors to GPU kernels, and ends the process when it is to wait for a GPU's stream.
 */
final class CopyKernel {
  private static final HandleTable<CopyKernel> KERNELS = new HandleTable<>();

  private static final Map<OrtStructField, Long> STUBS =
      Upcall.stubs(
          MethodHandles.lookup(), Map.of(KERNEL_COMPUTE, "compute", KERNEL_RELEASE, "release"));

  /** The {@code OrtKernelCreateFunc}. */
  private static final long CREATE =
      Upcall.stub(MethodHandles.lookup(), "create", "P(P,P,P)", Upcall.OnThrow.STATUS);

  private static final int MEM_TYPE_CPU_INPUT = -2;
  private static final int MEM_TYPE_CPU_OUTPUT = -1;

  /** A copy has one input; ONNX Runtime does not fuse it. */
  private static final int[] INPUT_INDEX_BY_SLOT = {0};

  private final PluginSession session;
  private final long handle;
  private final CStruct struct;

  private CopyKernel(PluginSession session) {
    this.session = session;
    this.handle = KERNELS.add(this);
    this.struct = new CStruct(KERNEL_IMPL_BYTES, handle, STUBS);
  }

  /**
   * A new {@code OrtKernelRegistry} with the two copies. It is never released: it costs little, and
   * sessions of its provider may use it for as long as the process lives.
   *
   * @param epName a C string
   */
  static long newRegistry(long epName) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      check(OrtFunction.CREATE_KERNEL_REGISTRY, out.address());
      long registry = out.get(ValueLayout.JAVA_LONG, 0);
      add(
          registry,
          epName,
          "MemcpyFromHost",
          OrtFunction.KERNEL_DEF_BUILDER_SET_INPUT_MEM_TYPE,
          MEM_TYPE_CPU_INPUT);
      add(
          registry,
          epName,
          "MemcpyToHost",
          OrtFunction.KERNEL_DEF_BUILDER_SET_OUTPUT_MEM_TYPE,
          MEM_TYPE_CPU_OUTPUT);
      return registry;
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  private static void add(
      long registry, long epName, String operator, OrtFunction setHostSide, int memType)
      throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      check(OrtFunction.CREATE_KERNEL_DEF_BUILDER, out.address());
      long builder = out.get(ValueLayout.JAVA_LONG, 0);
      try {
        // Both names are copied.
        OrtFunction setOperator = OrtFunction.KERNEL_DEF_BUILDER_SET_OPERATOR_TYPE;
        check(setOperator, builder, arena.allocateFrom(operator).address());
        OrtFunction setDomain = OrtFunction.KERNEL_DEF_BUILDER_SET_DOMAIN;
        check(setDomain, builder, arena.allocateFrom("").address());
        OrtFunction setVersions = OrtFunction.KERNEL_DEF_BUILDER_SET_SINCE_VERSION;
        OrtStatus.check(
            (long) setVersions.handle().invokeExact(builder, 1, Integer.MAX_VALUE), setVersions);
        check(OrtFunction.KERNEL_DEF_BUILDER_SET_EXECUTION_PROVIDER, builder, epName);
        OrtStatus.check((long) setHostSide.handle().invokeExact(builder, 0L, memType), setHostSide);
        check(OrtFunction.KERNEL_DEF_BUILDER_BUILD, builder, out.address());
      } finally {
        OrtCalls.release(OrtFunction.RELEASE_KERNEL_DEF_BUILDER, builder);
      }
      long definition = out.get(ValueLayout.JAVA_LONG, 0);
      try {
        OrtFunction addKernel = OrtFunction.KERNEL_REGISTRY_ADD_KERNEL;
        OrtStatus.check(
            (long) addKernel.handle().invokeExact(registry, definition, CREATE, 0L), addKernel);
      } finally {
        OrtCalls.release(OrtFunction.RELEASE_KERNEL_DEF, definition);
      }
    }
  }

  private static void check(OrtFunction function, long argument) throws Throwable {
    OrtStatus.check((long) function.handle().invokeExact(argument), function);
  }

  private static void check(OrtFunction function, long first, long second) throws Throwable {
    MethodHandle handle = function.handle();
    OrtStatus.check((long) handle.invokeExact(first, second), function);
  }

  // Upcalls: package-private for Upcall, which guards them all.

  static long create(long state, long info, long out) {
    try (OrtCalls calls = new OrtCalls()) {
      PluginSession session = PluginSession.at(calls.pointer(OrtFunction.KERNEL_INFO_GET_EP, info));
      Native.view(out, Long.BYTES)
          .set(ValueLayout.JAVA_LONG, 0, new CopyKernel(session).struct.address());
    }
    return 0;
  }

  static long compute(long self, long kernelContext) {
    at(self).copy(kernelContext);
    return 0;
  }

  static void release(long self) {
    CopyKernel kernel = at(self);
    KERNELS.remove(kernel.handle);
    kernel.struct.close();
  }

  private static CopyKernel at(long address) {
    return KERNELS.get(CStruct.handle(address, KERNEL_IMPL_BYTES));
  }

  private void copy(long kernelContext) {
    OrtKernelContext context =
        OrtKernelContext.ofThread().bind(kernelContext, INPUT_INDEX_BY_SLOT, session.gpuMemory());
    Tensor from = context.input(0);
    if (from.elementType() == ElementType.UNDEFINED) {
      throw new EpException(
          "kernel.copy",
          "ONNX Runtime wants a tensor copied whose element type this version does not know: keep"
              + " the nodes that use it on one side, the host or the GPU");
    }
    Tensor to = context.outputLike(0, from);
    if (to.elementCount() > 0) {
      session.provider().copy(from, to, context.gpuStream());
    }
  }
}
