package dev.expertbank.qmoe.device.cuda;

import static dev.expertbank.qmoe.device.cuda.CudaDriver.SUCCESS;
import static dev.expertbank.qmoe.device.cuda.CudaDriver.call;
import static dev.expertbank.qmoe.device.cuda.CudaDriver.link;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.List;
import java.util.function.LongToIntFunction;

/**
 * What a device is told to do: streams, events, copies, modules, launches and graphs, each a call
 * of the driver that throws {@link CudaException} if it fails. Handles are {@code long} and belong
 * to whoever created them. The calling thread has the device's context current. Safe from any
 * thread.
 */
final class CudaCalls {
  private static final MethodHandle CTX_SYNCHRONIZE = link(CudaFunction.CTX_SYNCHRONIZE);
  private static final MethodHandle STREAM_CREATE = link(CudaFunction.STREAM_CREATE);
  private static final MethodHandle STREAM_DESTROY = link(CudaFunction.STREAM_DESTROY);
  private static final MethodHandle STREAM_SYNCHRONIZE = link(CudaFunction.STREAM_SYNCHRONIZE);
  private static final MethodHandle STREAM_QUERY = link(CudaFunction.STREAM_QUERY);
  private static final MethodHandle STREAM_WAIT_EVENT = link(CudaFunction.STREAM_WAIT_EVENT);
  private static final MethodHandle BEGIN_CAPTURE = link(CudaFunction.STREAM_BEGIN_CAPTURE);
  private static final MethodHandle END_CAPTURE = link(CudaFunction.STREAM_END_CAPTURE);
  private static final MethodHandle CAPTURE_INFO = link(CudaFunction.STREAM_GET_CAPTURE_INFO);
  private static final MethodHandle EVENT_CREATE = link(CudaFunction.EVENT_CREATE);
  private static final MethodHandle EVENT_DESTROY = link(CudaFunction.EVENT_DESTROY);
  private static final MethodHandle EVENT_RECORD = link(CudaFunction.EVENT_RECORD);
  private static final MethodHandle EVENT_QUERY = link(CudaFunction.EVENT_QUERY);
  private static final MethodHandle EVENT_SYNCHRONIZE = link(CudaFunction.EVENT_SYNCHRONIZE);
  private static final MethodHandle EVENT_ELAPSED_TIME = link(CudaFunction.EVENT_ELAPSED_TIME);
  private static final MethodHandle HOST_TO_DEVICE = link(CudaFunction.MEMCPY_HTOD_ASYNC);
  private static final MethodHandle COPY_BATCH = link(CudaFunction.MEMCPY_BATCH_ASYNC);
  private static final MethodHandle DEVICE_TO_HOST = link(CudaFunction.MEMCPY_DTOH_ASYNC);
  private static final MethodHandle DEVICE_TO_DEVICE = link(CudaFunction.MEMCPY_DTOD_ASYNC);
  private static final MethodHandle SET_BYTES = link(CudaFunction.MEMSET_D8_ASYNC);
  private static final MethodHandle SET_INTS = link(CudaFunction.MEMSET_D32_ASYNC);
  private static final MethodHandle MODULE_LOAD_DATA = link(CudaFunction.MODULE_LOAD_DATA);
  private static final MethodHandle MODULE_UNLOAD = link(CudaFunction.MODULE_UNLOAD);
  private static final MethodHandle MODULE_GET_FUNCTION = link(CudaFunction.MODULE_GET_FUNCTION);
  private static final MethodHandle FUNC_GET_ATTRIBUTE = link(CudaFunction.FUNC_GET_ATTRIBUTE);
  private static final MethodHandle FUNC_SET_ATTRIBUTE = link(CudaFunction.FUNC_SET_ATTRIBUTE);
  private static final MethodHandle OCCUPANCY = link(CudaFunction.OCCUPANCY_MAX_ACTIVE_BLOCKS);
  private static final MethodHandle LAUNCH_KERNEL = link(CudaFunction.LAUNCH_KERNEL);
  private static final MethodHandle GRAPH_INSTANTIATE = link(CudaFunction.GRAPH_INSTANTIATE);
  private static final MethodHandle GRAPH_LAUNCH = link(CudaFunction.GRAPH_LAUNCH);
  private static final MethodHandle GRAPH_EXEC_DESTROY = link(CudaFunction.GRAPH_EXEC_DESTROY);
  private static final MethodHandle GRAPH_DESTROY = link(CudaFunction.GRAPH_DESTROY);

  /** Work of the stream does not wait for the NULL stream's, nor the other way round. */
  private static final int STREAM_NON_BLOCKING = 1;

  /** The waiting thread sleeps instead of spinning. */
  private static final int EVENT_BLOCKING_SYNC = 1;

  private static final int EVENT_DISABLE_TIMING = 2;

  /** Other threads may make calls that a capture forbids, such as allocations. */
  private static final int CAPTURE_THREAD_LOCAL = 1;

  private static final int CAPTURE_STATUS_NONE = 0;
  private static final int CAPTURE_STATUS_ACTIVE = 1;

  /** The driver counts from 1. */
  static final long NO_CAPTURE = 0;

  private static final long INVALID_CAPTURE = -1;

  /** {@code CUmemcpyAttributes}, of which everything but the order of reads stays zero. */
  private static final long COPY_ATTRIBUTES_BYTES = 24;

  private static final int SOURCE_READ_IN_STREAM_ORDER = 1;

  private final String device;

  /**
   * Calls for one device.
   *
   * @param device its name and number, for messages
   */
  CudaCalls(String device) {
    this.device = device;
  }

  String device() {
    return device;
  }

  /** A stream that is independent of the NULL stream. */
  long createStream() {
    return created(
        out -> call(STREAM_CREATE, out, STREAM_NON_BLOCKING),
        CudaFunction.STREAM_CREATE,
        STREAM_NON_BLOCKING);
  }

  /** Work that the stream still has is done all the same. */
  void destroyStream(long stream) {
    check(call(STREAM_DESTROY, stream), CudaFunction.STREAM_DESTROY, stream);
  }

  /** Waits until the stream has done everything; errors of its work show here. */
  void synchronizeStream(long stream) {
    check(call(STREAM_SYNCHRONIZE, stream), CudaFunction.STREAM_SYNCHRONIZE, stream);
  }

  /** Whether the stream has done everything. */
  boolean isStreamDone(long stream) {
    return isDone(call(STREAM_QUERY, stream), CudaFunction.STREAM_QUERY, stream);
  }

  /** What the stream is given from now on waits for the event as it was last recorded. */
  void streamWaitsFor(long stream, long event) {
    check(
        call(STREAM_WAIT_EVENT, stream, event, 0),
        CudaFunction.STREAM_WAIT_EVENT,
        stream,
        event,
        0);
  }

  /** From now on the stream's work is recorded, not done. The same thread ends it. */
  void beginCapture(long stream) {
    check(
        call(BEGIN_CAPTURE, stream, CAPTURE_THREAD_LOCAL),
        CudaFunction.STREAM_BEGIN_CAPTURE,
        stream,
        CAPTURE_THREAD_LOCAL);
  }

  /** The graph of what was recorded, for {@link #destroyGraph}. */
  long endCapture(long stream) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      check(
          call(END_CAPTURE, stream, out.address()),
          CudaFunction.STREAM_END_CAPTURE,
          stream,
          out.address());
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Whether a capture of the stream is open, be it still valid or not. */
  boolean isCapturing(long stream) {
    return captureNumber(stream) != NO_CAPTURE;
  }

  /**
   * The number of the capture that is open on a stream, or {@link #NO_CAPTURE}. No two captures of
   * the process have the same, but those that are not valid any more.
   */
  long captureNumber(long stream) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG, 2);
      long status = out.address();
      long number = status + Long.BYTES;
      check(
          call(CAPTURE_INFO, stream, status, number),
          CudaFunction.STREAM_GET_CAPTURE_INFO,
          stream,
          status,
          number);
      return switch (out.get(ValueLayout.JAVA_INT, 0)) {
        case CAPTURE_STATUS_NONE -> NO_CAPTURE;
        case CAPTURE_STATUS_ACTIVE -> out.getAtIndex(ValueLayout.JAVA_LONG, 1);
        default -> INVALID_CAPTURE;
      };
    }
  }

  /** An event that is only waited for. */
  long createEvent() {
    return createEvent(EVENT_DISABLE_TIMING | EVENT_BLOCKING_SYNC);
  }

  /** An event for {@link #elapsedNanos}. */
  long createTimedEvent() {
    return createEvent(EVENT_BLOCKING_SYNC);
  }

  private long createEvent(int flags) {
    return created(out -> call(EVENT_CREATE, out, flags), CudaFunction.EVENT_CREATE, flags);
  }

  void destroyEvent(long event) {
    check(call(EVENT_DESTROY, event), CudaFunction.EVENT_DESTROY, event);
  }

  /** The event happens when the stream has done what it has been given so far. */
  void recordEvent(long event, long stream) {
    check(call(EVENT_RECORD, event, stream), CudaFunction.EVENT_RECORD, event, stream);
  }

  /** Whether the event, as it was last recorded, has happened. */
  boolean hasHappened(long event) {
    return isDone(call(EVENT_QUERY, event), CudaFunction.EVENT_QUERY, event);
  }

  /** Waits until the event has happened. */
  void synchronizeEvent(long event) {
    check(call(EVENT_SYNCHRONIZE, event), CudaFunction.EVENT_SYNCHRONIZE, event);
  }

  /** Time between two events that have happened; the driver measures half microseconds. */
  long elapsedNanos(long start, long end) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_FLOAT);
      check(
          call(EVENT_ELAPSED_TIME, out.address(), start, end),
          CudaFunction.EVENT_ELAPSED_TIME,
          out.address(),
          start,
          end);
      return Math.round(out.get(ValueLayout.JAVA_FLOAT, 0) * 1e6);
    }
  }

  /**
   * Starts a copy to the device.
   *
   * @param source stays as it is until the copy is done if it is page-locked; else it has been read
   *     when the call returns, slowly
   */
  void copyToDevice(long target, long source, long bytes, long stream) {
    check(
        call(HOST_TO_DEVICE, target, source, bytes, stream),
        CudaFunction.MEMCPY_HTOD_ASYNC,
        target,
        source,
        bytes,
        stream);
  }

  /**
   * Starts copies to the device, in one call and in any order: between small ones the link idles
   * less than between as many calls.
   *
   * @param copies of memory that stays as it is until they are done; not empty
   */
  void copyToDevice(List<HostCopy> copies, long stream) {
    try (Arena arena = Arena.ofConfined()) {
      int count = copies.size();
      MemorySegment arrays = arena.allocate(ValueLayout.JAVA_LONG, 3L * count);
      for (int i = 0; i < count; i++) {
        HostCopy copy = copies.get(i);
        arrays.setAtIndex(ValueLayout.JAVA_LONG, i, copy.target());
        arrays.setAtIndex(ValueLayout.JAVA_LONG, count + i, copy.source());
        arrays.setAtIndex(ValueLayout.JAVA_LONG, 2L * count + i, copy.bytes());
      }
      // One set of attributes, from copy 0 on.
      MemorySegment attributes = arena.allocate(COPY_ATTRIBUTES_BYTES, Integer.BYTES);
      attributes.set(ValueLayout.JAVA_INT, 0, SOURCE_READ_IN_STREAM_ORDER);
      MemorySegment from = arena.allocate(ValueLayout.JAVA_LONG);
      MemorySegment failed = arena.allocate(ValueLayout.JAVA_LONG);
      long targets = arrays.address();
      long sources = targets + (long) count * Long.BYTES;
      long sizes = sources + (long) count * Long.BYTES;
      check(
          call(
              COPY_BATCH,
              targets,
              sources,
              sizes,
              count,
              attributes.address(),
              from.address(),
              1,
              failed.address(),
              stream),
          CudaFunction.MEMCPY_BATCH_ASYNC,
          targets,
          sources,
          sizes,
          count,
          attributes.address(),
          from.address(),
          1,
          failed.address(),
          stream);
    }
  }

  /** A copy from page-locked memory to the device. */
  record HostCopy(long target, long source, long bytes) {}

  /** Starts a copy from the device. */
  void copyToHost(long target, long source, long bytes, long stream) {
    check(
        call(DEVICE_TO_HOST, target, source, bytes, stream),
        CudaFunction.MEMCPY_DTOH_ASYNC,
        target,
        source,
        bytes,
        stream);
  }

  /** Starts a copy on the device. */
  void copyOnDevice(long target, long source, long bytes, long stream) {
    check(
        call(DEVICE_TO_DEVICE, target, source, bytes, stream),
        CudaFunction.MEMCPY_DTOD_ASYNC,
        target,
        source,
        bytes,
        stream);
  }

  /** Waits for everything that anyone does in the context. */
  void synchronizeContext() {
    check(call(CTX_SYNCHRONIZE), CudaFunction.CTX_SYNCHRONIZE);
  }

  /** Starts to fill memory of the device with a byte. */
  void setBytes(long target, byte value, long count, long stream) {
    int unsigned = Byte.toUnsignedInt(value);
    check(
        call(SET_BYTES, target, unsigned, count, stream),
        CudaFunction.MEMSET_D8_ASYNC,
        target,
        unsigned,
        count,
        stream);
  }

  /**
   * Starts to fill memory of the device with a word.
   *
   * @param target a multiple of 4
   * @param count of words
   */
  void setInts(long target, int value, long count, long stream) {
    check(
        call(SET_INTS, target, value, count, stream),
        CudaFunction.MEMSET_D32_ASYNC,
        target,
        value,
        count,
        stream);
  }

  /**
   * Loads kernels.
   *
   * @param image a fat binary, a cubin or PTX that ends with a zero byte; not needed afterwards
   * @return for {@link #unloadModule}
   */
  long loadModule(byte[] image) {
    try (Arena arena = Arena.ofConfined()) {
      // The driver reads a fat binary's header in words of 8 bytes.
      MemorySegment copy = arena.allocate(image.length, Long.BYTES);
      MemorySegment.copy(image, 0, copy, ValueLayout.JAVA_BYTE, 0, image.length);
      return created(
          out -> call(MODULE_LOAD_DATA, out, copy.address()),
          CudaFunction.MODULE_LOAD_DATA,
          copy.address());
    }
  }

  void unloadModule(long module) {
    check(call(MODULE_UNLOAD, module), CudaFunction.MODULE_UNLOAD, module);
  }

  /** A kernel by its {@code extern "C"} name; lives as long as its module. */
  long function(long module, String name) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment cName = arena.allocateFrom(name);
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result = call(MODULE_GET_FUNCTION, out.address(), module, cName.address());
      if (result != SUCCESS) {
        throw CudaDriver.failure(
            device + ", kernel '" + name + "',",
            CudaFunction.MODULE_GET_FUNCTION,
            result,
            out.address(),
            module,
            cName.address());
      }
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /**
   * An attribute of a kernel.
   *
   * @param attribute a {@code CUfunction_attribute}
   */
  int functionAttribute(long function, int attribute) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      check(
          call(FUNC_GET_ATTRIBUTE, out.address(), attribute, function),
          CudaFunction.FUNC_GET_ATTRIBUTE,
          out.address(),
          attribute,
          function);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  /**
   * Sets an attribute of a kernel.
   *
   * @param attribute a {@code CUfunction_attribute}
   */
  void setFunctionAttribute(long function, int attribute, int value) {
    check(
        call(FUNC_SET_ATTRIBUTE, function, attribute, value),
        CudaFunction.FUNC_SET_ATTRIBUTE,
        function,
        attribute,
        value);
  }

  /** How many blocks of a kernel one multiprocessor can hold at once. */
  int activeBlocks(long function, int blockThreads, long sharedBytes) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_INT);
      check(
          call(OCCUPANCY, out.address(), function, blockThreads, sharedBytes),
          CudaFunction.OCCUPANCY_MAX_ACTIVE_BLOCKS,
          out.address(),
          function,
          blockThreads,
          sharedBytes);
      return out.get(ValueLayout.JAVA_INT, 0);
    }
  }

  /**
   * Launches a kernel. Allocates nothing.
   *
   * @param parameters read before the call returns
   */
  void launch(long function, LaunchShape shape, long stream, KernelParameters parameters) {
    int result;
    try {
      result =
          (int)
              LAUNCH_KERNEL.invokeExact(
                  parameters.config(shape, stream), function, parameters.pointers(), 0L);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
    if (result != SUCCESS) {
      throw CudaDriver.failure(
          device,
          "cuLaunchKernelEx("
              + shape
              + ", stream 0x"
              + Long.toHexString(stream)
              + ", function 0x"
              + Long.toHexString(function)
              + ")",
          result);
    }
  }

  /** A graph that can be launched, for {@link #destroyExecutable}. */
  long instantiate(long graph) {
    return created(
        out -> call(GRAPH_INSTANTIATE, out, graph, 0L), CudaFunction.GRAPH_INSTANTIATE, graph, 0);
  }

  void launchGraph(long executable, long stream) {
    check(call(GRAPH_LAUNCH, executable, stream), CudaFunction.GRAPH_LAUNCH, executable, stream);
  }

  void destroyExecutable(long executable) {
    check(call(GRAPH_EXEC_DESTROY, executable), CudaFunction.GRAPH_EXEC_DESTROY, executable);
  }

  void destroyGraph(long graph) {
    check(call(GRAPH_DESTROY, graph), CudaFunction.GRAPH_DESTROY, graph);
  }

  private void check(int result, CudaFunction function, long... arguments) {
    CudaDriver.check(result, device, function, arguments);
  }

  private long created(LongToIntFunction call, CudaFunction function, long... arguments) {
    return CudaDriver.result(call, device, function, arguments);
  }

  private boolean isDone(int result, CudaFunction function, long handle) {
    if (result == CudaDriver.ERROR_NOT_READY) {
      return false;
    }
    check(result, function, handle);
    return true;
  }
}
