package dev.expertbank.model;

import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.EpException;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Objects;

/**
 * Writes a file of external tensor data.
 *
 * <p>Front to back: begin a tensor with {@link #align}, write its bytes, and describe it with
 * {@link #since(long)}. Or {@link #reserve} its place, and {@link #write(ByteBuffer, long)} its
 * bytes in any order. One thread at a time, but for that one method.
 */
public final class ExternalDataWriter implements Closeable {
  private final AtomicFile file;
  private long position;

  private ExternalDataWriter(AtomicFile file) {
    this.file = file;
  }

  /**
   * Begins a file; a model refers to it by its name alone, so it must stay beside the model.
   *
   * @throws EpException as {@link AtomicFile#create}
   */
  public static ExternalDataWriter create(Path file, boolean overwrite) {
    return new ExternalDataWriter(AtomicFile.create(file, overwrite));
  }

  /** Bytes written so far. */
  public long position() {
    return position;
  }

  /**
   * Writes zeros up to the next multiple.
   *
   * @return the position then
   */
  public long align(int multiple) {
    int padding = Math.floorMod(-position, multiple);
    write(ByteBuffer.allocate(padding));
    return position;
  }

  /** Writes all remaining bytes of the buffer. */
  public void write(ByteBuffer bytes) {
    int count = bytes.remaining();
    file.write(bytes, position);
    position += count;
  }

  /**
   * Leaves room for a tensor at the next multiple of {@code alignment}; all of its bytes are to be
   * written.
   */
  public ConstantData.External reserve(long bytes, int alignment) {
    long start = align(alignment);
    position = Math.addExact(start, bytes);
    return since(start);
  }

  /** Writes bytes of a tensor at their place in the file. Safe from any thread. */
  public void write(ByteBuffer bytes, long place) {
    file.write(bytes, place);
  }

  /** Writes a whole tensor at the next multiple of {@code alignment}. */
  public ConstantData.External append(byte[] bytes, int alignment) {
    long start = align(alignment);
    write(ByteBuffer.wrap(bytes));
    return since(start);
  }

  /** What was written since that position, as a model refers to it. */
  public ConstantData.External since(long start) {
    String name = Objects.requireNonNull(file.target().getFileName()).toString();
    return new ConstantData.External(name, start, position - start);
  }

  /** Gives the file its name; see {@link AtomicFile#commit}. */
  public void commit() {
    file.commit();
  }

  /** Removes what was written unless it was committed. */
  @Override
  public void close() {
    file.close();
  }
}
