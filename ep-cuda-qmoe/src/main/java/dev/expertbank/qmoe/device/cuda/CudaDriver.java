package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.natives.Native;
import dev.expertbank.spi.EpException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.LongToIntFunction;

/**
 * The driver's library, called through FFM, one method for each shape of a signature. Classes that
 * call it hold a handle in a {@code static final} field for each function; they must not be
 * initialised before {@link #problems} has been found empty.
 *
 * <p>The project has two bindings of the driver. {@link CudaSetup} asks JCuda for what there is and
 * for the primary context of a device, once per device. Everything after that goes through here:
 * JCuda keeps the value of a stream, an address or a context to itself, so what ONNX Runtime hands
 * over cannot be passed to it, and it takes 8 to 10 microseconds for a launch, against 3.
 */
final class CudaDriver {
  static final String LIBRARY_NAME = "libcuda.so.1";

  static final int SUCCESS = 0;
  static final int ERROR_NOT_READY = 600;
  static final int ERROR_UNKNOWN = 999;

  private CudaDriver() {}

  /** Initialised by the first question, not before: it loads the library. */
  private static final class Library {
    static final SymbolLookup SYMBOLS;
    static final List<String> PROBLEMS;

    static {
      SymbolLookup symbols = name -> Optional.empty();
      List<String> problems;
      try {
        symbols = Native.library(LIBRARY_NAME);
        problems = missing(symbols);
      } catch (EpException e) {
        problems = List.of("the NVIDIA driver is not installed: " + e.getMessage());
      }
      SYMBOLS = symbols;
      PROBLEMS = problems;
    }

    private static List<String> missing(SymbolLookup symbols) {
      List<String> missing =
          Arrays.stream(CudaFunction.values())
              .map(CudaFunction::symbol)
              .filter(symbol -> symbols.find(symbol).isEmpty())
              .toList();
      return missing.isEmpty()
          ? List.of()
          : List.of(
              "the NVIDIA driver is too old: "
                  + LIBRARY_NAME
                  + " has no "
                  + String.join(", ", missing));
    }
  }

  /** Why the driver cannot be called, each one sentence; empty if it can. */
  static List<String> problems() {
    return Library.PROBLEMS;
  }

  static MethodHandle link(CudaFunction function) {
    return Native.link(
        Library.SYMBOLS.findOrThrow(function.symbol()).address(), function.descriptor());
  }

  /**
   * The error of a call that has failed.
   *
   * @param device its name and number
   * @param arguments of the call, one for each parameter
   */
  static CudaException failure(
      String device, CudaFunction function, int result, long... arguments) {
    return failure(device, function.call(arguments), result);
  }

  /** The same of a call in words. */
  static CudaException failure(String device, String call, int result) {
    return new CudaException(device, call, result, ErrorText.of(result));
  }

  /**
   * Throws if a call has failed.
   *
   * @param device its name and number
   * @param arguments of the call, one for each parameter
   */
  static void check(int result, String device, CudaFunction function, long... arguments) {
    if (result != SUCCESS) {
      throw failure(device, function, result, arguments);
    }
  }

  /**
   * Calls a function whose first parameter points to where it writes a number of 64 bits.
   *
   * @param arguments the others
   * @return what it wrote
   */
  static long result(
      LongToIntFunction call, String device, CudaFunction function, long... arguments) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result = call.applyAsInt(out.address());
      if (result != SUCCESS) {
        long[] all = new long[arguments.length + 1];
        all[0] = out.address();
        System.arraycopy(arguments, 0, all, 1, arguments.length);
        throw failure(device, function, result, all);
      }
      return out.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** CUDA's own words for its results. */
  private static final class ErrorText {
    private static final MethodHandle NAME = link(CudaFunction.GET_ERROR_NAME);
    private static final MethodHandle TEXT = link(CudaFunction.GET_ERROR_STRING);

    static String of(int result) {
      return text(NAME, result) + " (" + result + "), " + text(TEXT, result);
    }

    private static String text(MethodHandle function, int result) {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
        // A result that the driver does not know leaves NULL.
        int _ = (int) function.invokeExact(result, out.address());
        long text = out.get(ValueLayout.JAVA_LONG, 0);
        return text == 0 ? "unknown to the driver" : Native.string(text);
      } catch (Throwable e) {
        throw new IllegalStateException(e);
      }
    }
  }

  static int call(MethodHandle function) {
    try {
      return (int) function.invokeExact();
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static int call(MethodHandle function, long a) {
    try {
      return (int) function.invokeExact(a);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static int call(MethodHandle function, long a, int b) {
    try {
      return (int) function.invokeExact(a, b);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static int call(MethodHandle function, long a, long b) {
    try {
      return (int) function.invokeExact(a, b);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static int call(MethodHandle function, long a, int b, int c) {
    try {
      return (int) function.invokeExact(a, b, c);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static int call(MethodHandle function, long a, int b, long c) {
    try {
      return (int) function.invokeExact(a, b, c);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static int call(MethodHandle function, long a, long b, int c) {
    try {
      return (int) function.invokeExact(a, b, c);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static int call(MethodHandle function, long a, long b, long c) {
    try {
      return (int) function.invokeExact(a, b, c);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static int call(MethodHandle function, long a, long b, long c, long d) {
    try {
      return (int) function.invokeExact(a, b, c, d);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static int call(MethodHandle function, long a, long b, long c, long d, long e) {
    try {
      return (int) function.invokeExact(a, b, c, d, e);
    } catch (Throwable t) {
      throw new IllegalStateException(t);
    }
  }

  static int call(
      MethodHandle function,
      long a,
      long b,
      long c,
      long d,
      long e,
      long f,
      long g,
      long h,
      long i) {
    try {
      return (int) function.invokeExact(a, b, c, d, e, f, g, h, i);
    } catch (Throwable t) {
      throw new IllegalStateException(t);
    }
  }

  static int call(MethodHandle function, long a, int b, long c, long d) {
    try {
      return (int) function.invokeExact(a, b, c, d);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static int call(MethodHandle function, long a, long b, int c, long d) {
    try {
      return (int) function.invokeExact(a, b, c, d);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }
}
