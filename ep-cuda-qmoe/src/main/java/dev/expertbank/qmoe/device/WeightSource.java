package dev.expertbank.qmoe.device;

import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;

/** Where the bytes of a tensor are when they are not in a slot. */
public sealed interface WeightSource {
  long bytes();

  /** A range of an open file. */
  record InFile(FileChannel channel, long offset, long bytes) implements WeightSource {}

  /** Memory that outlives every copy. */
  record InMemory(MemorySegment memory) implements WeightSource {
    @Override
    public long bytes() {
      return memory.byteSize();
    }
  }
}
