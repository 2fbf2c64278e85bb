package dev.expertbank.ort;

import dev.expertbank.spi.EpException;
import dev.expertbank.spi.MemoryDevice;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * The memory of one GPU as ONNX Runtime describes it: owns the {@code OrtMemoryInfo} that its
 * {@code OrtMemoryDevice} is a part of. Safe from any thread until {@link #close}.
 */
final class OrtGpuMemory implements AutoCloseable {
  private static final MethodHandle VALUE_MEMORY_DEVICE =
      OrtFunction.VALUE_GET_MEMORY_DEVICE.handle();
  private static final MethodHandle ARE_EQUAL = OrtFunction.MEMORY_DEVICE_ARE_EQUAL.handle();
  private static final MethodHandle DEVICE_TYPE =
      OrtFunction.MEMORY_DEVICE_GET_DEVICE_TYPE.handle();
  private static final MethodHandle MEMORY_TYPE =
      OrtFunction.MEMORY_DEVICE_GET_MEMORY_TYPE.handle();
  private static final MethodHandle VENDOR_ID = OrtFunction.MEMORY_DEVICE_GET_VENDOR_ID.handle();
  private static final MethodHandle DEVICE_ID = OrtFunction.MEMORY_DEVICE_GET_DEVICE_ID.handle();

  private static final int TYPE_CPU = 0;
  private static final int TYPE_GPU = 1;
  private static final int MEMORY_DEFAULT = 0;
  private static final int MEMORY_HOST_ACCESSIBLE = 5;
  private static final int DEVICE_ALLOCATOR = 0;

  private final MemoryDevice.Gpu gpu;
  private final long memoryInfo;
  private final long memoryDevice;

  OrtGpuMemory(MemoryDevice.Gpu gpu) {
    this.gpu = gpu;
    this.memoryInfo = createMemoryInfo(gpu);
    this.memoryDevice = OrtCalls.get(OrtFunction.MEMORY_INFO_GET_MEMORY_DEVICE, memoryInfo);
  }

  private static long createMemoryInfo(MemoryDevice.Gpu gpu) {
    OrtFunction function = OrtFunction.CREATE_MEMORY_INFO_V2;
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment name = arena.allocateFrom("Cuda");
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      // Devices are equal only if their alignments are, and ONNX Runtime's CUDA provider asks for
      // none.
      long alignment = 0;
      OrtStatus.check(
          (long)
              function
                  .handle()
                  .invokeExact(
                      name.address(),
                      TYPE_GPU,
                      gpu.vendorId(),
                      gpu.number(),
                      MEMORY_DEFAULT,
                      alignment,
                      DEVICE_ALLOCATOR,
                      out.address()),
          function);
      return out.get(ValueLayout.JAVA_LONG, 0);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  /** The {@code OrtMemoryDevice}, valid until {@link #close}. */
  long memoryDevice() {
    return memoryDevice;
  }

  /**
   * Where ONNX Runtime put a tensor.
   *
   * @param value an {@code OrtValue} that is a tensor
   */
  MemoryDevice of(long value) {
    try {
      long device = (long) VALUE_MEMORY_DEVICE.invokeExact(value);
      if ((boolean) ARE_EQUAL.invokeExact(device, memoryDevice)) {
        return gpu;
      }
      if (device == 0) {
        throw new EpException("kernel.memory", "ONNX Runtime gave a value that is not a tensor");
      }
      int type = (int) DEVICE_TYPE.invokeExact(device);
      // Page-locked memory counts as its GPU's, but it is host memory.
      if (type == TYPE_CPU || (int) MEMORY_TYPE.invokeExact(device) == MEMORY_HOST_ACCESSIBLE) {
        return MemoryDevice.HOST;
      }
      if (type == TYPE_GPU) {
        return new MemoryDevice.Gpu(
            (int) VENDOR_ID.invokeExact(device), (int) DEVICE_ID.invokeExact(device));
      }
      throw new EpException(
          "kernel.memory",
          "ONNX Runtime gave a tensor in the memory of device type "
              + type
              + "; expected the host or a GPU");
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void close() {
    OrtCalls.release(OrtFunction.RELEASE_MEMORY_INFO, memoryInfo);
  }
}
