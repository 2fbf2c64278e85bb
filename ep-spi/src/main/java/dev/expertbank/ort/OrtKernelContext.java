package dev.expertbank.ort;

import dev.expertbank.natives.Native;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.KernelContext;
import dev.expertbank.spi.MemoryDevice;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.jspecify.annotations.Nullable;

/**
 * The {@code OrtKernelContext} of one execution. Each thread has one instance, bound anew for every
 * execution, so that a run allocates nothing that lasts.
 */
final class OrtKernelContext implements KernelContext {
  private static final MethodHandle GET_INPUT = OrtFunction.KERNEL_CONTEXT_GET_INPUT.handle();
  private static final MethodHandle GET_OUTPUT = OrtFunction.KERNEL_CONTEXT_GET_OUTPUT.handle();
  private static final MethodHandle TYPE_AND_SHAPE =
      OrtFunction.GET_TENSOR_ELEMENT_TYPE_AND_SHAPE_DATA_REFERENCE.handle();
  private static final MethodHandle TENSOR_DATA = OrtFunction.GET_TENSOR_DATA.handle();
  private static final MethodHandle TENSOR_MUTABLE_DATA =
      OrtFunction.GET_TENSOR_MUTABLE_DATA.handle();
  private static final MethodHandle PARALLEL_FOR = OrtFunction.KERNEL_CONTEXT_PARALLEL_FOR.handle();
  private static final MethodHandle GPU_COMPUTE_STREAM =
      OrtFunction.KERNEL_CONTEXT_GET_GPU_COMPUTE_STREAM.handle();

  private static final int MAX_RANK = 8;

  private static final ThreadLocal<OrtKernelContext> OF_THREAD =
      ThreadLocal.withInitial(OrtKernelContext::new);

  /**
   * Out-parameters: a pointer, an element type, a shape pointer, a rank; then output dimensions.
   */
  private final MemorySegment out = Arena.ofAuto().allocate(32 + 8L * MAX_RANK, 8);

  private final long outAddress = out.address();
  private long context;
  private int[] inputIndexBySlot = new int[0];
  private @Nullable OrtGpuMemory gpuMemory;

  static OrtKernelContext ofThread() {
    return OF_THREAD.get();
  }

  /**
   * Points this instance at the execution that {@code context} stands for.
   *
   * @param inputIndexBySlot the fused node's input for each slot of the original node, or -1
   * @param gpuMemory where the provider wants tensors; null for the host
   */
  OrtKernelContext bind(long context, int[] inputIndexBySlot, @Nullable OrtGpuMemory gpuMemory) {
    this.context = context;
    this.inputIndexBySlot = inputIndexBySlot;
    this.gpuMemory = gpuMemory;
    return this;
  }

  @Override
  public Tensor input(int slot) {
    int index = slot < inputIndexBySlot.length ? inputIndexBySlot[slot] : -1;
    if (index < 0) {
      throw new EpException(
          "kernel.input", "operator input " + slot + " is absent or its constant was dropped");
    }
    try {
      OrtStatus.check(
          (long) GET_INPUT.invokeExact(context, (long) index, outAddress),
          OrtFunction.KERNEL_CONTEXT_GET_INPUT);
      return tensor(out.get(ValueLayout.JAVA_LONG, 0), TENSOR_DATA);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public Tensor outputLike(int index, Tensor like) {
    int rank = like.rank();
    for (int axis = 0; axis < rank; axis++) {
      out.set(ValueLayout.JAVA_LONG, 32 + 8L * axis, like.dim(axis));
    }
    try {
      checkOutput(
          index,
          (long)
              GET_OUTPUT.invokeExact(
                  context, (long) index, outAddress + 32, (long) rank, outAddress));
      return tensor(out.get(ValueLayout.JAVA_LONG, 0), TENSOR_MUTABLE_DATA);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void parallelFor(MemorySegment function, long total, MemorySegment userData) {
    try {
      // num_batch 0 lets ONNX Runtime choose how to group iterations.
      OrtStatus.check(
          (long)
              PARALLEL_FOR.invokeExact(context, function.address(), total, 0L, userData.address()),
          OrtFunction.KERNEL_CONTEXT_PARALLEL_FOR);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public long gpuStream() {
    try {
      OrtStatus.check(
          (long) GPU_COMPUTE_STREAM.invokeExact(context, outAddress),
          OrtFunction.KERNEL_CONTEXT_GET_GPU_COMPUTE_STREAM);
      return out.get(ValueLayout.JAVA_LONG, 0);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  private OrtTensor tensor(long value, MethodHandle dataFunction) throws Throwable {
    OrtStatus.check(
        (long) TYPE_AND_SHAPE.invokeExact(value, outAddress + 8, outAddress + 16, outAddress + 24),
        OrtFunction.GET_TENSOR_ELEMENT_TYPE_AND_SHAPE_DATA_REFERENCE);
    ElementType type = ElementType.ofCode(out.get(ValueLayout.JAVA_INT, 8));
    long shape = out.get(ValueLayout.JAVA_LONG, 16);
    int rank = Math.toIntExact(out.get(ValueLayout.JAVA_LONG, 24));
    if (rank > MAX_RANK) {
      throw new EpException("kernel.rank", "tensors of rank " + rank + " are not supported");
    }
    long elements = 1;
    long[] dims = new long[rank];
    if (rank > 0) {
      MemorySegment shapeData = Native.view(shape, 8L * rank);
      for (int axis = 0; axis < rank; axis++) {
        dims[axis] = shapeData.getAtIndex(ValueLayout.JAVA_LONG, axis);
        elements = Math.multiplyExact(elements, dims[axis]);
      }
    }
    OrtStatus.check(
        (long) dataFunction.invokeExact(value, outAddress), OrtFunction.GET_TENSOR_DATA);
    long bytes = type.bytes(elements);
    MemorySegment data =
        bytes == 0 ? MemorySegment.NULL : Native.view(out.get(ValueLayout.JAVA_LONG, 0), bytes);
    // Next to CUDA, ONNX Runtime copies what a host provider reads: no need to ask.
    MemoryDevice memory = gpuMemory == null ? MemoryDevice.HOST : gpuMemory.of(value);
    return new OrtTensor(type, dims, elements, memory, data);
  }

  private void checkOutput(int index, long status) {
    try {
      OrtStatus.check(status, OrtFunction.KERNEL_CONTEXT_GET_OUTPUT);
    } catch (EpException e) {
      if (gpuMemory == null) {
        throw e;
      }
      throw new EpException(
          "io.device",
          "ONNX Runtime could not allocate output "
              + index
              + " next to GPU memory; if its CUDA provider is not in this session, add it after"
              + " this provider (options.addCUDA) or use io=host. ONNX Runtime's own text: "
              + e.getMessage(),
          e);
    }
  }

  private static final class OrtTensor implements Tensor {
    private final ElementType elementType;
    private final long[] dims;
    private final long elementCount;
    private final MemoryDevice memory;
    private final MemorySegment data;

    OrtTensor(
        ElementType elementType,
        long[] dims,
        long elementCount,
        MemoryDevice memory,
        MemorySegment data) {
      this.elementType = elementType;
      this.dims = dims;
      this.elementCount = elementCount;
      this.memory = memory;
      this.data = data;
    }

    @Override
    public ElementType elementType() {
      return elementType;
    }

    @Override
    public int rank() {
      return dims.length;
    }

    @Override
    public long dim(int axis) {
      return dims[axis];
    }

    @Override
    public long elementCount() {
      return elementCount;
    }

    @Override
    public MemoryDevice memory() {
      return memory;
    }

    @Override
    public MemorySegment data() {
      return data;
    }
  }
}
