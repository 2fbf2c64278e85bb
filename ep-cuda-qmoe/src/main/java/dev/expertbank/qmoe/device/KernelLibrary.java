package dev.expertbank.qmoe.device;

import dev.expertbank.natives.Native;
import dev.expertbank.natives.NativeLibrary;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;

/** A library of kernels that travels in a jar. Safe from any thread. */
public final class KernelLibrary {
  private final String name;
  private final SymbolLookup symbols;

  /**
   * Extracts and loads a library, for the life of the process.
   *
   * @param name without prefix and extension
   */
  public KernelLibrary(String name) {
    this.name = name;
    symbols = Native.library(NativeLibrary.extract(name));
  }

  /** The address of a function. */
  public MemorySegment function(String function) {
    return symbols.findOrThrow(function);
  }

  /** A function to call. */
  public MethodHandle link(String function, FunctionDescriptor descriptor) {
    return Native.link(function(function).address(), descriptor);
  }

  /**
   * Compares the sizes of structures with those of their mirrors in Java: one that has drifted from
   * the header would corrupt memory.
   *
   * @param function writes the size of each structure, in bytes
   * @param expected the sizes of the mirrors, in the same order
   * @throws LinkageError if they differ
   */
  public void checkAbi(String function, long... expected) {
    MethodHandle abi = link(function, FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG));
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment sizes = arena.allocate(ValueLayout.JAVA_LONG, expected.length);
      abi.invokeExact(sizes.address());
      long[] found = sizes.toArray(ValueLayout.JAVA_LONG);
      if (!Arrays.equals(found, expected)) {
        throw new LinkageError(
            "the structures of "
                + name
                + " have "
                + Arrays.toString(found)
                + " bytes, this version was built for "
                + Arrays.toString(expected)
                + ": use matching jars");
      }
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }
}
