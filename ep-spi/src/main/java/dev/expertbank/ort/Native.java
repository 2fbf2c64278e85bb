package dev.expertbank.ort;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** Every restricted call of the host: views of foreign memory, downcall handles, upcall stubs. */
@SuppressWarnings("restricted") // this class is where they are allowed
final class Native {
  /** Longest C string that is read from ONNX Runtime; names in a hostile model may be long. */
  private static final long MAX_STRING_BYTES = 1 << 20;

  private static final Linker LINKER = Linker.nativeLinker();

  private Native() {}

  /** Memory that ONNX Runtime owns, with its true size; valid as long as its owner says. */
  static MemorySegment view(long address, long byteSize) {
    if (address == 0) {
      throw new IllegalStateException("ONNX Runtime returned a NULL pointer");
    }
    return MemorySegment.ofAddress(address).reinterpret(byteSize);
  }

  /** A C string, copied; NULL gives the empty string. */
  static String string(long address) {
    return address == 0 ? "" : view(address, MAX_STRING_BYTES).getString(0, StandardCharsets.UTF_8);
  }

  static MethodHandle link(long function, FunctionDescriptor descriptor) {
    if (function == 0) {
      throw new IllegalStateException("ONNX Runtime has a NULL function pointer in its table");
    }
    return LINKER.downcallHandle(MemorySegment.ofAddress(function), descriptor);
  }

  /** Calls a function once, without keeping a handle: for the few calls before tables are known. */
  static Object call(long function, String signature, Object... arguments) {
    try {
      return link(function, Signature.descriptor(signature)).invokeWithArguments(arguments);
    } catch (Throwable e) {
      throw new IllegalStateException("call into ONNX Runtime failed", e);
    }
  }

  /** A stub that lives as long as the process: ONNX Runtime may keep it in a table. */
  static long upcallStub(MethodHandle target, FunctionDescriptor descriptor) {
    return LINKER.upcallStub(target, descriptor, Arena.global()).address();
  }

  /** Symbols of a library that stays loaded until the process ends. */
  static SymbolLookup library(Path path) {
    return SymbolLookup.libraryLookup(path, Arena.global());
  }
}
