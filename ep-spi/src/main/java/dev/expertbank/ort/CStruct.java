package dev.expertbank.ort;

import dev.expertbank.natives.Native;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Map;

/**
 * A structure of function pointers that ONNX Runtime keeps until it calls the matching release
 * function. The number of the Java object behind it stands just after the C fields, so that shared
 * stubs find their object from the structure's address.
 */
final class CStruct implements AutoCloseable {
  private final Arena arena = Arena.ofShared();
  private final MemorySegment memory;

  CStruct(long byteSize, long handle, Map<OrtStructField, Long> stubs) {
    memory = arena.allocate(byteSize + Long.BYTES, Long.BYTES);
    memory.set(ValueLayout.JAVA_INT, 0, OrtRuntime.current().apiVersion());
    stubs.forEach((field, stub) -> memory.set(ValueLayout.JAVA_LONG, field.offset(), stub));
    memory.set(ValueLayout.JAVA_LONG, byteSize, handle);
  }

  long address() {
    return memory.address();
  }

  /** The number behind the structure at {@code address}. */
  static long handle(long address, long byteSize) {
    return Native.view(address, byteSize + Long.BYTES).get(ValueLayout.JAVA_LONG, byteSize);
  }

  @Override
  public void close() {
    arena.close();
  }
}
