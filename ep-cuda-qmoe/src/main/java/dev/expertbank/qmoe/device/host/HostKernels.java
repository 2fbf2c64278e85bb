package dev.expertbank.qmoe.device.host;

import dev.expertbank.natives.Native;
import dev.expertbank.qmoe.bank.AddressTable;
import dev.expertbank.qmoe.device.KernelLibrary;
import dev.expertbank.qmoe.device.QMoeSpecStruct;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * The functions of {@code qmoe_host.h}. Loading this class extracts and loads the library, so only
 * a device that computes may touch it.
 */
final class HostKernels {
  /** {@code EB_MAX_RUN_TOKENS}. */
  static final int MAX_RUN_TOKENS = 512;

  private static final KernelLibrary LIBRARY = new KernelLibrary("expertbank_qmoe_host");

  /** Passed to ONNX Runtime's thread pool, which calls them without Java in between. */
  static final MemorySegment FC1 = LIBRARY.function("expertbank_qmoe_fc1");

  static final MemorySegment FC2 = LIBRARY.function("expertbank_qmoe_fc2");

  private static final MethodHandle PREPARE =
      LIBRARY.link(
          "expertbank_qmoe_prepare",
          FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG));
  private static final MethodHandle WORKSPACE_BYTES =
      LIBRARY.link(
          "expertbank_qmoe_workspace_bytes",
          FunctionDescriptor.of(
              ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));

  private static final MethodHandle COMMIT_SLOT =
      LIBRARY.link(
          "expertbank_slot_commit",
          FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));
  private static final MethodHandle RELEASE_SLOT =
      LIBRARY.link(
          "expertbank_slot_release",
          FunctionDescriptor.of(
              ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));

  static {
    LIBRARY.checkAbi(
        "expertbank_qmoe_abi",
        AddressTable.ROW_BYTES,
        QMoeSpecStruct.LAYOUT.byteSize(),
        HostRun.LAYOUT.byteSize());
  }

  private HostKernels() {}

  /** The instruction tier that the library chose on this CPU. */
  static String tier() {
    try {
      MethodHandle tier =
          LIBRARY.link("expertbank_qmoe_tier", FunctionDescriptor.of(ValueLayout.JAVA_LONG));
      return Native.string((long) tier.invokeExact());
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static long pageBytes() {
    try {
      MethodHandle pageBytes =
          LIBRARY.link("expertbank_page_bytes", FunctionDescriptor.of(ValueLayout.JAVA_LONG));
      return (long) pageBytes.invokeExact();
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  /** The address, or 0 when there is no memory. */
  static long commitSlot(long bytes) {
    try {
      return (long) COMMIT_SLOT.invokeExact(bytes);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static boolean releaseSlot(long address, long bytes) {
    try {
      return (int) RELEASE_SLOT.invokeExact(address, bytes) == 0;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static long workspaceBytes(MemorySegment spec, long tokens) {
    long bytes;
    try {
      bytes = (long) WORKSPACE_BYTES.invokeExact(spec.address(), tokens);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
    if (bytes < 0) {
      throw new IllegalStateException("the host kernels do not compute this specification");
    }
    return bytes;
  }

  static void prepare(MemorySegment run) {
    int result;
    try {
      result = (int) PREPARE.invokeExact(run.address());
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
    if (result != 0) {
      throw new IllegalStateException("expertbank_qmoe_prepare refused its run: " + result);
    }
  }
}
