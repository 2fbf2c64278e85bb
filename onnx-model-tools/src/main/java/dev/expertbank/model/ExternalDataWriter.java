package dev.expertbank.model;

import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.EpException;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Objects;

/**
 * Writes a file of external tensor data front to back.
 *
 * <p>Begin a tensor with {@link #align}, write its bytes, and describe it with {@link
 * #since(long)}. One thread at a time.
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
    file.write(bytes);
    position += count;
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
