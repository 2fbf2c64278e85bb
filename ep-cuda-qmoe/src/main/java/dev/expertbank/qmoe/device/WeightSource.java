package dev.expertbank.qmoe.device;

import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;

/** Where the bytes of a tensor are when they are not in a slot. */
public sealed interface WeightSource {
  /** Bytes of one positional read. */
  long READ_BYTES = 8 << 20;

  long bytes();

  /**
   * A range of an open file.
   *
   * @param mapped the same bytes, in a mapping that outlives every copy; reading it may cost a
   *     fault for each page, and the process if the file has become shorter
   */
  record InFile(FileChannel channel, long offset, MemorySegment mapped) implements WeightSource {
    @Override
    public long bytes() {
      return mapped.byteSize();
    }

    /** A part of it. */
    public InFile asSlice(long from, long length) {
      return new InFile(channel, offset + from, mapped.asSlice(from, length));
    }

    /**
     * Reads by position.
     *
     * @param from the first byte
     * @param target is filled
     * @throws EOFException if the file has become shorter
     */
    public void read(long from, MemorySegment target) throws IOException {
      for (long done = 0; done < target.byteSize(); ) {
        ByteBuffer piece =
            target.asSlice(done, Math.min(READ_BYTES, target.byteSize() - done)).asByteBuffer();
        int read = channel.read(piece, offset + from + done);
        if (read < 0) {
          throw new EOFException("the weight file ends before byte " + (offset + from + done));
        }
        done += read;
      }
    }
  }

  /** Memory that outlives every copy. */
  record InMemory(MemorySegment memory) implements WeightSource {
    @Override
    public long bytes() {
      return memory.byteSize();
    }
  }
}
