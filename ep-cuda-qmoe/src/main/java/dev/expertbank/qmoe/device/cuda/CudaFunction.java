package dev.expertbank.qmoe.device.cuda;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.ValueLayout;
import java.util.StringJoiner;

/**
 * Every function of {@code libcuda.so.1} that is called without JCuda, under the name that the
 * library exports: where {@code cuda.h} renames a function to a later version of it, the later
 * version, unless the first one tells enough. Drivers from CUDA 12.8 on export all of them.
 *
 * <p>A signature has a letter for each parameter: {@code P} a pointer or a handle, {@code J} a
 * {@code size_t} or another 64-bit number, {@code I} an {@code int}, an enum or less. All return a
 * {@code CUresult}.
 */
enum CudaFunction {
  GET_ERROR_NAME("cuGetErrorName", "IP"),
  GET_ERROR_STRING("cuGetErrorString", "IP"),

  CTX_GET_CURRENT("cuCtxGetCurrent", "P"),
  CTX_SET_CURRENT("cuCtxSetCurrent", "P"),
  CTX_SYNCHRONIZE("cuCtxSynchronize", ""),
  THREAD_EXCHANGE_CAPTURE_MODE("cuThreadExchangeStreamCaptureMode", "P"),

  STREAM_CREATE("cuStreamCreate", "PI"),
  STREAM_DESTROY("cuStreamDestroy_v2", "P"),
  STREAM_SYNCHRONIZE("cuStreamSynchronize", "P"),
  STREAM_QUERY("cuStreamQuery", "P"),
  STREAM_WAIT_EVENT("cuStreamWaitEvent", "PPI"),
  STREAM_BEGIN_CAPTURE("cuStreamBeginCapture_v2", "PI"),
  STREAM_END_CAPTURE("cuStreamEndCapture", "PP"),
  STREAM_GET_CAPTURE_INFO("cuStreamGetCaptureInfo", "PPP"),

  EVENT_CREATE("cuEventCreate", "PI"),
  EVENT_DESTROY("cuEventDestroy_v2", "P"),
  EVENT_RECORD("cuEventRecord", "PP"),
  EVENT_QUERY("cuEventQuery", "P"),
  EVENT_SYNCHRONIZE("cuEventSynchronize", "P"),
  EVENT_ELAPSED_TIME("cuEventElapsedTime", "PPP"),

  MEM_ALLOC("cuMemAlloc_v2", "PJ"),
  MEM_FREE("cuMemFree_v2", "P"),
  MEM_GET_INFO("cuMemGetInfo_v2", "PP"),
  MEM_HOST_ALLOC("cuMemHostAlloc", "PJI"),
  MEM_FREE_HOST("cuMemFreeHost", "P"),
  MEM_HOST_REGISTER("cuMemHostRegister_v2", "PJI"),
  MEM_HOST_UNREGISTER("cuMemHostUnregister", "P"),
  MEM_HOST_GET_DEVICE_POINTER("cuMemHostGetDevicePointer_v2", "PPI"),
  MEMCPY_HTOD_ASYNC("cuMemcpyHtoDAsync_v2", "PPJP"),
  MEMCPY_DTOH_ASYNC("cuMemcpyDtoHAsync_v2", "PPJP"),
  MEMCPY_BATCH_ASYNC("cuMemcpyBatchAsync", "PPPJPPJPP"),
  MEMCPY_DTOD_ASYNC("cuMemcpyDtoDAsync_v2", "PPJP"),
  MEMSET_D8_ASYNC("cuMemsetD8Async", "PIJP"),
  MEMSET_D32_ASYNC("cuMemsetD32Async", "PIJP"),
  POINTER_GET_ATTRIBUTE("cuPointerGetAttribute", "PIP"),

  MEM_GET_ALLOCATION_GRANULARITY("cuMemGetAllocationGranularity", "PPI"),
  MEM_ADDRESS_RESERVE("cuMemAddressReserve", "PJJPJ"),
  MEM_ADDRESS_FREE("cuMemAddressFree", "PJ"),
  MEM_CREATE("cuMemCreate", "PJPJ"),
  MEM_RELEASE("cuMemRelease", "P"),
  MEM_MAP("cuMemMap", "PJJPJ"),
  MEM_UNMAP("cuMemUnmap", "PJ"),
  MEM_SET_ACCESS("cuMemSetAccess", "PJPJ"),

  MODULE_LOAD_DATA("cuModuleLoadData", "PP"),
  MODULE_UNLOAD("cuModuleUnload", "P"),
  MODULE_GET_FUNCTION("cuModuleGetFunction", "PPP"),
  FUNC_GET_ATTRIBUTE("cuFuncGetAttribute", "PIP"),
  FUNC_SET_ATTRIBUTE("cuFuncSetAttribute", "PII"),
  OCCUPANCY_MAX_ACTIVE_BLOCKS("cuOccupancyMaxActiveBlocksPerMultiprocessor", "PPIJ"),
  LAUNCH_KERNEL("cuLaunchKernelEx", "PPPP"),

  GRAPH_INSTANTIATE("cuGraphInstantiateWithFlags", "PPJ"),
  GRAPH_LAUNCH("cuGraphLaunch", "PP"),
  GRAPH_EXEC_DESTROY("cuGraphExecDestroy", "P"),
  GRAPH_DESTROY("cuGraphDestroy", "P");

  private final String symbol;
  private final String signature;

  CudaFunction(String symbol, String signature) {
    this.symbol = symbol;
    this.signature = signature;
  }

  /** The name that the library exports. */
  String symbol() {
    return symbol;
  }

  /**
   * A call as messages write it.
   *
   * @param arguments one for each letter of the signature
   */
  String call(long... arguments) {
    StringJoiner text = new StringJoiner(", ", symbol + "(", ")");
    for (int i = 0; i < arguments.length; i++) {
      text.add(
          signature.charAt(i) == 'P'
              ? "0x" + Long.toHexString(arguments[i])
              : Long.toString(arguments[i]));
    }
    return text.toString();
  }

  FunctionDescriptor descriptor() {
    return FunctionDescriptor.of(
        ValueLayout.JAVA_INT,
        signature.chars().mapToObj(CudaFunction::layout).toArray(MemoryLayout[]::new));
  }

  private static MemoryLayout layout(int letter) {
    return switch (letter) {
      case 'P', 'J' -> ValueLayout.JAVA_LONG;
      case 'I' -> ValueLayout.JAVA_INT;
      default -> throw new IllegalArgumentException(Character.toString(letter));
    };
  }
}
