package dev.expertbank.qmoe.device.cuda;

import static dev.expertbank.qmoe.device.cuda.CudaDriver.call;
import static dev.expertbank.qmoe.device.cuda.CudaDriver.link;

import dev.expertbank.spi.EpException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * A use of the primary context of one device. The driver counts its uses: the context lives until
 * the last is closed, and ONNX Runtime's CUDA provider computes in the same one. Safe from any
 * thread.
 */
final class CudaContext implements AutoCloseable {
  private static final MethodHandle CTX_GET_CURRENT = link(CudaFunction.CTX_GET_CURRENT);
  private static final MethodHandle CTX_SET_CURRENT = link(CudaFunction.CTX_SET_CURRENT);

  private static final MethodHandle EXCHANGE_CAPTURE_MODE =
      link(CudaFunction.THREAD_EXCHANGE_CAPTURE_MODE);

  private static final int CAPTURE_RELAXED = 2;

  private final CudaDeviceInfo info;
  private final CudaCalls calls;
  private final CudaMemoryCalls memory;
  private final long handle;
  private final Current keep = () -> {};
  private boolean closed;

  /**
   * Takes a use of the context; creates it if nobody has.
   *
   * @throws EpException {@code device.cuda} if the device has no room for it or is lost
   */
  CudaContext(CudaDeviceInfo info) {
    this.info = info;
    calls = new CudaCalls(info.label());
    memory = new CudaMemoryCalls(info.label(), info.number());
    long previous = current();
    CudaSetup.retainPrimaryContext(info);
    handle = current();
    setCurrent(previous);
  }

  CudaDeviceInfo info() {
    return info;
  }

  CudaCalls calls() {
    return calls;
  }

  CudaMemoryCalls memory() {
    return memory;
  }

  /** Until it is closed, by the same thread, the thread has the context current. */
  @FunctionalInterface
  interface Current extends AutoCloseable {
    @Override
    void close();
  }

  /**
   * Makes the context current to the calling thread, as every call of the driver needs. Threads are
   * ONNX Runtime's, and its CUDA provider may compute on another device in between: so the driver
   * is asked each time, which takes less than a remembered answer would be worth, and gets back
   * what it had.
   */
  Current makeCurrent() {
    long previous = current();
    if (previous == handle) {
      return keep;
    }
    setCurrent(handle);
    return () -> setCurrent(previous);
  }

  /**
   * The same, for calls that a capture elsewhere would forbid: ONNX Runtime's CUDA provider lets
   * nobody in the process allocate or ask for an event meanwhile. Nothing that is called so is
   * meant to be part of a capture.
   */
  Current makeCurrentRelaxed() {
    Current current = makeCurrent();
    try {
      int before = exchangeCaptureMode(CAPTURE_RELAXED);
      return () -> {
        try (current) {
          exchangeCaptureMode(before);
        }
      };
    } catch (CudaException e) {
      current.close();
      throw e;
    }
  }

  /** Sets the calling thread's mode; the one it had. */
  private int exchangeCaptureMode(int mode) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment exchanged = arena.allocateFrom(ValueLayout.JAVA_INT, mode);
      CudaDriver.check(
          call(EXCHANGE_CAPTURE_MODE, exchanged.address()),
          info.label(),
          CudaFunction.THREAD_EXCHANGE_CAPTURE_MODE,
          exchanged.address());
      return exchanged.get(ValueLayout.JAVA_INT, 0);
    }
  }

  private long current() {
    return CudaDriver.result(
        out -> call(CTX_GET_CURRENT, out), info.label(), CudaFunction.CTX_GET_CURRENT);
  }

  private void setCurrent(long context) {
    CudaDriver.check(
        call(CTX_SET_CURRENT, context), info.label(), CudaFunction.CTX_SET_CURRENT, context);
  }

  /** Everything that was made in the context has been given back. Closing twice is allowed. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      CudaSetup.releasePrimaryContext(info);
    }
  }
}
