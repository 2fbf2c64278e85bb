package dev.expertbank.qmoe.device.host;

import dev.expertbank.natives.Native;
import dev.expertbank.natives.NativeLibrary;
import dev.expertbank.qmoe.bank.AddressTable;
import dev.expertbank.qmoe.device.QMoeSpecStruct;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * The functions of {@code qmoe_host.h}. Loading this class extracts and loads the library, so only
 * a device that computes may touch it.
 */
final class HostKernels {
  /** {@code EB_MAX_RUN_TOKENS}. */
  static final int MAX_RUN_TOKENS = 512;

  private static final SymbolLookup LIBRARY =
      Native.library(NativeLibrary.extract("expertbank_qmoe_host"));

  /** Passed to ONNX Runtime's thread pool, which calls them without Java in between. */
  static final MemorySegment FC1 = LIBRARY.findOrThrow("expertbank_qmoe_fc1");

  static final MemorySegment FC2 = LIBRARY.findOrThrow("expertbank_qmoe_fc2");

  private static final MethodHandle PREPARE =
      link(
          "expertbank_qmoe_prepare",
          FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG));
  private static final MethodHandle WORKSPACE_BYTES =
      link(
          "expertbank_qmoe_workspace_bytes",
          FunctionDescriptor.of(
              ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));

  private static final MethodHandle COMMIT_SLOT =
      link(
          "expertbank_slot_commit",
          FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));
  private static final MethodHandle RELEASE_SLOT =
      link(
          "expertbank_slot_release",
          FunctionDescriptor.of(
              ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));

  static {
    checkAbi();
  }

  private HostKernels() {}

  /** The instruction tier that the library chose on this CPU. */
  static String tier() {
    try {
      MethodHandle tier =
          link("expertbank_qmoe_tier", FunctionDescriptor.of(ValueLayout.JAVA_LONG));
      return Native.string((long) tier.invokeExact());
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static long pageBytes() {
    try {
      MethodHandle pageBytes =
          link("expertbank_page_bytes", FunctionDescriptor.of(ValueLayout.JAVA_LONG));
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

  private static MethodHandle link(String name, FunctionDescriptor descriptor) {
    return Native.link(LIBRARY.findOrThrow(name).address(), descriptor);
  }

  /** A mirror that has drifted from the header would corrupt memory: refuse to run at all. */
  private static void checkAbi() {
    MethodHandle abi =
        link("expertbank_qmoe_abi", FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG));
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment sizes = arena.allocate(ValueLayout.JAVA_LONG, 3);
      abi.invokeExact(sizes.address());
      long row = sizes.getAtIndex(ValueLayout.JAVA_LONG, 0);
      long spec = sizes.getAtIndex(ValueLayout.JAVA_LONG, 1);
      long run = sizes.getAtIndex(ValueLayout.JAVA_LONG, 2);
      if (row != AddressTable.ROW_BYTES
          || spec != QMoeSpecStruct.LAYOUT.byteSize()
          || run != HostRun.LAYOUT.byteSize()) {
        throw new LinkageError(
            "the host kernels' structures are "
                + row
                + ", "
                + spec
                + " and "
                + run
                + " bytes, not what this version was built for: use matching jars");
      }
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }
}
