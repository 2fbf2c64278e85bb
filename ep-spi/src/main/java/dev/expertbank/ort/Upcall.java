package dev.expertbank.ort;

import dev.expertbank.natives.Native;
import dev.expertbank.spi.EpException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.EnumMap;
import java.util.Map;

/**
 * Makes upcall stubs. A Throwable that leaves an upcall ends the VM, so no stub exists without a
 * guard: the only way to make one is {@link #stub}, which wraps the target.
 */
final class Upcall {
  private static final System.Logger LOG = System.getLogger(Upcall.class.getName());

  /** How a caught Throwable reaches ONNX Runtime. */
  enum OnThrow {
    /** The result is an {@code OrtStatus*}: the Throwable's text becomes its message. */
    STATUS,
    /** The result is nothing, a number or a pointer: log it and return zero. */
    ZERO
  }

  private Upcall() {}

  /**
   * One stub per field, each calling the static method of {@code lookup}'s class that the map
   * names. Made once per class: all its instances share them.
   */
  static Map<OrtStructField, Long> stubs(
      MethodHandles.Lookup lookup, Map<OrtStructField, String> methods) {
    Map<OrtStructField, Long> stubs = new EnumMap<>(OrtStructField.class);
    methods.forEach(
        (field, method) ->
            stubs.put(field, stub(lookup, method, field.signature(), field.onThrow())));
    return stubs;
  }

  /** The guarded stub of the static method {@code name} of {@code lookup}'s class. */
  static long stub(MethodHandles.Lookup lookup, String name, String signature, OnThrow onThrow) {
    FunctionDescriptor descriptor = Signature.descriptor(signature);
    MethodType type = descriptor.toMethodType();
    try {
      MethodHandle target = lookup.findStatic(lookup.lookupClass(), name, type);
      return Native.upcallStub(guarded(target, onThrow), descriptor);
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("no upcall target " + name + type, e);
    }
  }

  static MethodHandle guarded(MethodHandle target, OnThrow onThrow) {
    MethodType type = target.type();
    MethodHandle handler;
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      MethodType withThrowable = MethodType.methodType(type.returnType(), Throwable.class);
      handler =
          onThrow == OnThrow.STATUS
              ? lookup.findStatic(Upcall.class, "toStatus", withThrowable)
              : MethodHandles.filterReturnValue(
                  lookup.findStatic(
                      Upcall.class, "log", MethodType.methodType(void.class, Throwable.class)),
                  zero(type.returnType()));
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("upcall guard", e);
    }
    return MethodHandles.catchException(
        target, Throwable.class, MethodHandles.dropArguments(handler, 1, type.parameterList()));
  }

  private static MethodHandle zero(Class<?> type) {
    return type == void.class
        ? MethodHandles.empty(MethodType.methodType(void.class))
        : MethodHandles.zero(type);
  }

  static long toStatus(Throwable thrown) {
    try {
      if (!(thrown instanceof EpException)) {
        LOG.log(System.Logger.Level.WARNING, "execution provider failed", thrown);
      }
      return OrtStatus.create(message(thrown));
    } catch (Throwable second) {
      // Out of memory or stack while reporting: a message made beforehand still gets through.
      return OrtStatus.createLastResort();
    }
  }

  static void log(Throwable thrown) {
    try {
      LOG.log(System.Logger.Level.WARNING, "execution provider failed", thrown);
    } catch (Throwable second) {
      // Nothing is left to do: the caller has no way to take an error.
    }
  }

  private static String message(Throwable thrown) {
    return thrown instanceof EpException e
        ? "[" + e.code() + "] " + e.getMessage()
        : thrown.toString();
  }
}
