package dev.expertbank.tests.cuda;

import dev.expertbank.qmoe.device.OwnPages;
import dev.expertbank.qmoe.device.WeightSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.SplittableRandom;

/** A file of random bytes, open and mapped as weights are. */
record MappedFile(Path path, MemorySegment content, FileChannel channel, MemorySegment mapping)
    implements AutoCloseable {
  /**
   * Writes and maps it.
   *
   * @param arena owns the mapping; closed after the device
   */
  static MappedFile write(Path directory, Arena arena, int size) throws IOException {
    byte[] bytes = new byte[size];
    new SplittableRandom(size).nextBytes(bytes);
    Path path = Files.write(directory.resolve("weights-" + size), bytes);
    FileChannel channel = FileChannel.open(path, StandardOpenOption.READ);
    return new MappedFile(
        path,
        MemorySegment.ofArray(bytes),
        channel,
        channel.map(FileChannel.MapMode.READ_ONLY, 0, size, arena));
  }

  WeightSource.InFile source(int from, int length) {
    return new WeightSource.InFile(channel, from, mapping.asSlice(from, length));
  }

  byte[] bytes(int from, int length) {
    return content.asSlice(from, length).toArray(ValueLayout.JAVA_BYTE);
  }

  /** Its bytes in memory, as those of weights that are not read from their file. */
  MemorySegment copy(Arena arena) {
    return OwnPages.allocate(arena, mapping.byteSize()).copyFrom(mapping);
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }
}
