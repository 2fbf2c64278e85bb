package dev.expertbank.natives;

import dev.expertbank.spi.EpException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * Every restricted call of the project: views of foreign memory, downcall handles, upcall stubs,
 * libraries. Nothing else reinterprets a segment or links a function.
 */
@SuppressWarnings("restricted") // this class is where they are allowed
public final class Native {
  /** Longest C string that is read; names in a hostile model may be long. */
  private static final long MAX_STRING_BYTES = 1 << 20;

  private static final int RTLD_NOW = 2;

  private static final Linker LINKER = Linker.nativeLinker();

  private Native() {}

  /** Memory of a foreign owner, with its true size; valid as long as the owner says. */
  public static MemorySegment view(long address, long byteSize) {
    if (address == 0) {
      throw new IllegalStateException("native code returned a NULL pointer");
    }
    return MemorySegment.ofAddress(address).reinterpret(byteSize);
  }

  /** A C string, copied; NULL gives the empty string. */
  public static String string(long address) {
    return address == 0 ? "" : view(address, MAX_STRING_BYTES).getString(0, StandardCharsets.UTF_8);
  }

  /** A downcall handle; addresses in the descriptor may be {@code long}. */
  public static MethodHandle link(long function, FunctionDescriptor descriptor) {
    if (function == 0) {
      throw new IllegalStateException("native code has a NULL function pointer in its table");
    }
    return LINKER.downcallHandle(MemorySegment.ofAddress(function), descriptor);
  }

  /** A stub that lives as long as the process: foreign code may keep it. */
  public static long upcallStub(MethodHandle target, FunctionDescriptor descriptor) {
    return LINKER.upcallStub(target, descriptor, Arena.global()).address();
  }

  /**
   * Symbols of a library that stays loaded until the process ends.
   *
   * @throws EpException {@code native.load} with the loader's own text
   */
  public static SymbolLookup library(Path path) {
    try {
      // The lookup below hides why a library cannot be loaded; this call says it.
      System.load(path.toString());
    } catch (UnsatisfiedLinkError e) {
      throw new EpException("native.load", "cannot load " + path + ": " + e.getMessage(), e);
    }
    return SymbolLookup.libraryLookup(path, Arena.global());
  }

  /**
   * Symbols of a library that the system finds by its name, and that stays loaded until the process
   * ends.
   *
   * @param name as the dynamic loader takes it, such as {@code libcuda.so.1}
   * @throws EpException {@code native.load} with the loader's own text
   */
  public static SymbolLookup library(String name) {
    SymbolLookup system = LINKER.defaultLookup();
    MethodHandle open =
        link(
            system.findOrThrow("dlopen").address(),
            FunctionDescriptor.of(
                ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT));
    MethodHandle error =
        link(system.findOrThrow("dlerror").address(), FunctionDescriptor.of(ValueLayout.JAVA_LONG));
    try (Arena arena = Arena.ofConfined()) {
      // The lookup below hides why a library cannot be loaded; this call says it.
      long library = (long) open.invokeExact(arena.allocateFrom(name).address(), RTLD_NOW);
      if (library == 0) {
        throw new EpException("native.load", string((long) error.invokeExact()));
      }
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
    return SymbolLookup.libraryLookup(name, Arena.global());
  }
}
