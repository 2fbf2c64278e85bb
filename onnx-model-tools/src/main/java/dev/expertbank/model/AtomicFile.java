package dev.expertbank.model;

import dev.expertbank.spi.EpException;
import dev.expertbank.spi.Printable;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.HexFormat;
import java.util.concurrent.ThreadLocalRandom;

/**
 * A file that appears under its name only when it is complete.
 *
 * <p>It is written under a temporary name in the same directory, created exclusively and never
 * through a link, then renamed. It is not forced to the device: after a power failure, write it
 * again. One thread at a time.
 */
public final class AtomicFile implements Closeable {
  private final Path target;
  private final Path temporary;
  private final boolean overwrite;
  private final FileChannel channel;
  private boolean committed;

  private AtomicFile(Path target, Path temporary, boolean overwrite, FileChannel channel) {
    this.target = target;
    this.temporary = temporary;
    this.overwrite = overwrite;
    this.channel = channel;
  }

  /**
   * Opens the temporary file.
   *
   * @param overwrite replace a regular file that has the name already
   * @throws EpException {@code write.exists}, {@code write.not-regular} or {@code write.failed}
   */
  public static AtomicFile create(Path target, boolean overwrite) {
    checkTarget(target, overwrite);
    String random = HexFormat.of().toHexDigits(ThreadLocalRandom.current().nextLong());
    Path temporary = target.resolveSibling("." + target.getFileName() + "." + random + ".part");
    try {
      FileChannel channel =
          FileChannel.open(
              temporary,
              StandardOpenOption.CREATE_NEW,
              StandardOpenOption.WRITE,
              LinkOption.NOFOLLOW_LINKS);
      return new AtomicFile(target, temporary, overwrite, channel);
    } catch (IOException e) {
      throw failed(target, e);
    }
  }

  private static void checkTarget(Path target, boolean overwrite) {
    if (!Files.exists(target, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    if (!Files.isRegularFile(target, LinkOption.NOFOLLOW_LINKS)) {
      throw new EpException(
          "write.not-regular",
          shown(target) + " exists and is not a regular file; choose another name");
    }
    if (!overwrite) {
      throw new EpException("write.exists", shown(target) + " exists already");
    }
  }

  public Path target() {
    return target;
  }

  /**
   * Appends all remaining bytes.
   *
   * @throws EpException {@code write.failed}, for example when the disk is full
   */
  public void write(ByteBuffer bytes) {
    try {
      while (bytes.hasRemaining()) {
        channel.write(bytes);
      }
    } catch (IOException e) {
      throw failed(target, e);
    }
  }

  /**
   * Writes all remaining bytes at a place of the file; what lies between written places is zero.
   * Safe from any thread, beside other calls of it.
   *
   * @throws EpException {@code write.failed}, for example when the disk is full
   */
  public void write(ByteBuffer bytes, long position) {
    try {
      for (long at = position; bytes.hasRemaining(); ) {
        at += channel.write(bytes, at);
      }
    } catch (IOException e) {
      throw failed(target, e);
    }
  }

  /**
   * Gives the file its name. What it held before is gone from then on; without {@code overwrite} a
   * file that has appeared meanwhile is kept and this fails.
   *
   * @throws EpException {@code write.exists}, {@code write.not-regular} or {@code write.failed}
   */
  public void commit() {
    try {
      channel.close();
      checkTarget(target, overwrite);
      Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
      committed = true;
    } catch (IOException e) {
      throw failed(target, e);
    }
  }

  /** Removes the temporary file unless it was committed; closing twice does nothing more. */
  @Override
  public void close() {
    try {
      channel.close();
      if (!committed) {
        Files.deleteIfExists(temporary);
      }
    } catch (IOException e) {
      throw failed(target, e);
    }
  }

  private static EpException failed(Path target, IOException e) {
    String reason =
        e instanceof FileAlreadyExistsException || e.getMessage() == null
            ? e.getClass().getSimpleName()
            : e.getMessage();
    return new EpException(
        "write.failed", "cannot write " + shown(target) + ": " + Printable.quote(reason), e);
  }

  private static String shown(Path path) {
    return Printable.quote(path.toString());
  }
}
