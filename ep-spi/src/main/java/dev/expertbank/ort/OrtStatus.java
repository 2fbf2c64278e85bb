package dev.expertbank.ort;

import dev.expertbank.natives.Native;
import dev.expertbank.spi.EpException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** {@code OrtStatus*} values: ours become ONNX Runtime's, ONNX Runtime's become exceptions. */
final class OrtStatus {
  private static final int EP_FAIL = 11;

  private static final MemorySegment LAST_RESORT =
      Arena.global().allocateFrom("the execution provider failed, and reporting why failed too");

  private static final MethodHandle CREATE_STATUS = OrtFunction.CREATE_STATUS.handle();
  private static final MethodHandle RELEASE_STATUS = OrtFunction.RELEASE_STATUS.handle();

  private OrtStatus() {}

  /** A status that ONNX Runtime will own. */
  static long create(String message) throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment text = arena.allocateFrom(message.replace('\0', '?'));
      return (long) CREATE_STATUS.invokeExact(EP_FAIL, text.address());
    }
  }

  static long createLastResort() {
    try {
      return (long) CREATE_STATUS.invokeExact(EP_FAIL, LAST_RESORT.address());
    } catch (Throwable e) {
      return 0;
    }
  }

  /**
   * Releases a status that ONNX Runtime returned.
   *
   * @throws EpException {@code ort.call} with ONNX Runtime's text, unless the status is OK
   */
  static void check(long status, OrtFunction function) {
    if (status == 0) {
      return;
    }
    String text;
    try {
      text = Native.string((long) OrtFunction.GET_ERROR_MESSAGE.handle().invokeExact(status));
      RELEASE_STATUS.invokeExact(status);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
    throw new EpException("ort.call", function.cName() + " failed: " + text);
  }
}
