package dev.expertbank.ort;

import dev.expertbank.natives.Native;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;

/**
 * Calls of the few shapes that reading a graph needs. They run while a session is created, so a
 * handle that the JIT cannot see through is fast enough.
 *
 * <p>An instance owns the memory for out-parameters and is confined to one callback.
 */
final class OrtCalls implements AutoCloseable {
  private final Arena arena = Arena.ofConfined();
  private final MemorySegment out = arena.allocate(16);

  /** {@code OrtStatus* f(object, T** out)}. */
  long pointer(OrtFunction function, long object) {
    invoke(function, object);
    return out.get(ValueLayout.JAVA_LONG, 0);
  }

  /** {@code OrtStatus* f(object, const char** out)}, copied. */
  String string(OrtFunction function, long object) {
    return Native.string(pointer(function, object));
  }

  /** {@code OrtStatus* f(object, int* out)}. */
  int integer(OrtFunction function, long object) {
    invoke(function, object);
    return out.get(ValueLayout.JAVA_INT, 0);
  }

  /** {@code OrtStatus* f(object, bool* out)}. */
  boolean bool(OrtFunction function, long object) {
    invoke(function, object);
    return out.get(ValueLayout.JAVA_BYTE, 0) != 0;
  }

  /** A count function, then {@code OrtStatus* f(object, T** array, size_t count)}. */
  List<Long> array(OrtFunction countFunction, OrtFunction function, long object) {
    int count = Math.toIntExact(pointer(countFunction, object));
    if (count == 0) {
      return List.of();
    }
    List<Long> result = new ArrayList<>(count);
    try (Arena local = Arena.ofConfined()) {
      MemorySegment values = local.allocate(ValueLayout.JAVA_LONG, count);
      OrtStatus.check(
          (long) function.handle().invokeExact(object, values.address(), (long) count), function);
      for (int i = 0; i < count; i++) {
        result.add(values.getAtIndex(ValueLayout.JAVA_LONG, i));
      }
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(function.cName(), e);
    }
    return result;
  }

  /** {@code T* f(object)} for functions that cannot fail. */
  static long get(OrtFunction function, long object) {
    try {
      return (long) function.handle().invokeExact(object);
    } catch (Throwable e) {
      throw new IllegalStateException(function.cName(), e);
    }
  }

  /** {@code void f(object)}. */
  static void release(OrtFunction function, long object) {
    try {
      function.handle().invokeExact(object);
    } catch (Throwable e) {
      throw new IllegalStateException(function.cName(), e);
    }
  }

  private void invoke(OrtFunction function, long object) {
    out.fill((byte) 0);
    try {
      OrtStatus.check((long) function.handle().invokeExact(object, out.address()), function);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(function.cName(), e);
    }
  }

  @Override
  public void close() {
    arena.close();
  }
}
