package dev.expertbank.qmoe.bank;

import dev.expertbank.qmoe.device.OwnPages;
import dev.expertbank.qmoe.device.WeightSource;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExternalDataFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/** The external-data files of one session, each opened once. Safe from any thread. */
final class WeightFiles implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger(WeightFiles.class.getName());

  /** Bytes of one positional read. */
  private static final long READ_BYTES = 8 << 20;

  private final Arena arena = Arena.ofShared();
  private final Map<Path, OpenFile> files = new LinkedHashMap<>();
  private final Map<Path, MemorySegment> mappings = new LinkedHashMap<>();

  /** A file and what it was when it was opened. */
  private record OpenFile(
      ExternalDataFile file, FileChannel channel, BasicFileAttributes attributes) {}

  private MemorySegment map(ExternalDataFile file, long offset, long length) {
    MemorySegment mapping = mappings.get(file.path());
    if (mapping == null) {
      try {
        // A read-only mapping of a channel is shared: the page cache stays the only copy.
        mapping = open(file).channel().map(FileChannel.MapMode.READ_ONLY, 0, file.size(), arena);
      } catch (IOException e) {
        throw new EpException("weights.map", "cannot map " + file.path() + ": " + e, e);
      }
      mappings.put(file.path(), mapping);
    }
    return mapping.asSlice(offset, length);
  }

  /** A range of the file, mapped and to be read by position. */
  synchronized WeightSource.InFile source(ExternalDataFile file, long offset, long length) {
    return new WeightSource.InFile(open(file).channel(), offset, map(file, offset, length));
  }

  /** A range of the file, read into memory that this object owns. */
  synchronized MemorySegment copy(ExternalDataFile file, long offset, long length) {
    FileChannel channel = open(file).channel();
    MemorySegment copy = OwnPages.allocate(arena, length);
    try {
      for (long done = 0; done < length; ) {
        ByteBuffer piece = copy.asSlice(done, Math.min(READ_BYTES, length - done)).asByteBuffer();
        int read = channel.read(piece, offset + done);
        if (read < 0) {
          throw changed(file);
        }
        done += read;
      }
    } catch (IOException e) {
      throw new EpException("weights.read", "cannot read " + file.path() + ": " + e, e);
    }
    return copy;
  }

  private OpenFile open(ExternalDataFile file) {
    OpenFile open = files.get(file.path());
    if (open == null) {
      FileChannel channel = file.open();
      try {
        open =
            new OpenFile(
                file, channel, Files.readAttributes(file.path(), BasicFileAttributes.class));
      } catch (IOException e) {
        closeQuietly(file.path(), channel);
        throw new EpException("weights.read", "cannot read " + file.path() + ": " + e, e);
      }
      files.put(file.path(), open);
    }
    return open;
  }

  /**
   * Compares every file with what it was when it was opened. Native code that reads a mapping
   * beyond the end of a truncated file ends the process, so this is asked in every run.
   *
   * @throws EpException {@code weights.changed} naming the file
   */
  synchronized void checkUnchanged() {
    for (OpenFile open : files.values()) {
      try {
        if (open.channel().size() != open.file().size()) {
          throw changed(open.file());
        }
        BasicFileAttributes now =
            Files.readAttributes(open.file().path(), BasicFileAttributes.class);
        // Another file under the old name leaves the open one as it was.
        if (Objects.equals(now.fileKey(), open.attributes().fileKey())
            && !now.lastModifiedTime().equals(open.attributes().lastModifiedTime())) {
          throw changed(open.file());
        }
      } catch (IOException e) {
        LOG.log(
            System.Logger.Level.DEBUG,
            () -> open.file().path() + " has lost its name; its open mapping stays valid");
      }
    }
  }

  private static EpException changed(ExternalDataFile file) {
    return new EpException(
        "weights.changed",
        file.path()
            + " changed while its model is in use: close the session and load the model again");
  }

  @Override
  public synchronized void close() {
    files.forEach((path, open) -> closeQuietly(path, open.channel()));
    files.clear();
    mappings.clear();
    arena.close();
  }

  private static void closeQuietly(Path path, FileChannel channel) {
    try {
      channel.close();
    } catch (IOException e) {
      LOG.log(System.Logger.Level.WARNING, "closing " + path, e);
    }
  }
}
