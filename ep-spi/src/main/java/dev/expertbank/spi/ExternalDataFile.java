package dev.expertbank.spi;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A file of external tensor data that may be read: it exists, is a regular file, and lies where a
 * model may have its data. Locations in a model file are untrusted; this is the one place that
 * turns them into paths.
 *
 * <p>A file may lie in the real directory of the model or below it. Symbolic links are followed as
 * long as they end there. One more place is allowed: in a Hugging Face cache ({@code
 * models--…/snapshots/REVISION/}) the model and its data are both links into {@code
 * models--…/blobs/}, so a model opened from such a snapshot may have its data in those blobs; ONNX
 * Runtime accepts the same. A hard link is a file like any other here: it cannot be told from the
 * file it was made of, and a model file cannot create one.
 *
 * @param path the real path, without links
 * @param size bytes when the file was resolved
 * @param lastModified modification time when the file was resolved
 */
public record ExternalDataFile(Path path, long size, FileTime lastModified) {
  private static final int MAX_LOCATION_CHARACTERS = 4096;

  /** Locations that ONNX Runtime gives to tensors in its own memory; an offset is an address. */
  private static final List<String> MEMORY_TAGS =
      List.of("*/_ORT_MEM_ADDR_/*", "*/_ORT_NATIVE_ENDIAN_MEM_ADDR_/*");

  /**
   * Finds the file that a model means by {@code location}.
   *
   * @param modelDirectory from {@link #modelDirectory}
   * @param location as the model states it
   * @throws EpException {@code external.location} (does not name a plain file), {@code
   *     external.absolute}, {@code external.path-escape}, {@code external.memory-tag}, {@code
   *     external.symlink} (a link leaves the allowed places), {@code external.missing}, {@code
   *     external.not-regular}, {@code external.unreadable}
   */
  public static ExternalDataFile resolve(Path modelDirectory, String location) {
    String relative = checkLocation(location);
    Path directory = realPath(modelDirectory, "model directory");
    Path stated;
    try {
      stated = directory.resolve(relative);
    } catch (InvalidPathException e) {
      throw refusal("external.location", location, "is not a file name on this system", e);
    }
    Path real = realPath(stated, "external data location " + Printable.quote(location) + ",");
    if (!mayHoldDataOf(directory, real)) {
      throw refusal(
          "external.symlink",
          location,
          "leads through a symbolic link to "
              + quote(real)
              + ", outside the model's directory "
              + quote(directory)
              + "; put the file itself there",
          null);
    }
    return describe(real, location);
  }

  /**
   * The directory that the external data of a model is relative to.
   *
   * <p>That is the directory the model is opened from. When the model file is a symbolic link to a
   * place that {@link #resolve} would not allow from there, it is the directory of the real file:
   * its data lies beside it.
   *
   * @throws EpException {@code external.missing} or {@code external.unreadable}, for the model file
   */
  public static Path modelDirectory(Path modelFile) {
    Path absolute = modelFile.toAbsolutePath();
    Path real = realPath(absolute, "model file");
    Path opened = realPath(parent(absolute), "model directory");
    return mayHoldDataOf(opened, real) ? opened : parent(real);
  }

  /**
   * Checks that a range lies inside the file.
   *
   * @param what whose range it is, already printable, for the message
   * @throws EpException {@code external.range}
   */
  public void checkRange(long offset, long length, String what) {
    if (offset < 0 || length < 0 || length > size || offset > size - length) {
      throw new EpException(
          "external.range",
          what
              + " is stated to be "
              + length
              + " bytes from offset "
              + offset
              + " of "
              + quote(path)
              + ", which has "
              + size
              + " bytes; the file is incomplete or belongs to another model");
    }
  }

  /**
   * Opens the file for reading, without following a link that has taken its place.
   *
   * @return the caller closes it
   * @throws EpException {@code external.changed} when the file is no longer the one that was
   *     resolved, {@code external.unreadable}
   */
  @SuppressWarnings("resource") // the caller's; closed here only when it is not handed out
  public FileChannel open() {
    try {
      FileChannel channel =
          FileChannel.open(path, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS);
      if (channel.size() != size || !Files.getLastModifiedTime(path).equals(lastModified)) {
        channel.close();
        throw new EpException(
            "external.changed",
            quote(path) + " changed while the model was being loaded; load the model again");
      }
      return channel;
    } catch (IOException e) {
      throw unreadable(quote(path), e);
    }
  }

  /**
   * Looks at the text alone.
   *
   * @return the location without a leading {@code ./}
   */
  private static String checkLocation(String location) {
    if (MEMORY_TAGS.contains(location)) {
      throw refusal(
          "external.memory-tag", location, "stands for an address in memory, not for a file", null);
    }
    if (location.length() > MAX_LOCATION_CHARACTERS) {
      throw refusal(
          "external.location", location, "is longer than " + MAX_LOCATION_CHARACTERS, null);
    }
    // A backslash separates directories on Windows only: for these checks it does everywhere.
    String slashed = location.replace('\\', '/');
    if (slashed.startsWith("/") || slashed.matches("(?s)[A-Za-z]:.*")) {
      throw refusal(
          "external.absolute", location, "is absolute; data must lie beside the model", null);
    }
    String relative = location.startsWith("./") ? location.substring(2) : location;
    List<String> segments =
        List.of((slashed.startsWith("./") ? slashed.substring(2) : slashed).split("/", -1));
    if (segments.contains("..")) {
      throw refusal(
          "external.path-escape", location, "contains '..'; data must lie beside the model", null);
    }
    if (location.contains("\\")
        || location.chars().anyMatch(Character::isISOControl)
        || !segments.stream().allMatch(ExternalDataFile::isPlainName)) {
      throw refusal(
          "external.location",
          location,
          "does not name a file: use names joined by '/', without empty or '.' parts, backslashes,"
              + " control characters, or a dot or space at the end of a name",
          null);
    }
    return relative;
  }

  private static boolean isPlainName(String segment) {
    return !segment.isEmpty() && !segment.endsWith(".") && !segment.endsWith(" ");
  }

  private static Path realPath(Path path, String what) {
    try {
      return path.toRealPath();
    } catch (NoSuchFileException e) {
      throw new EpException("external.missing", what + " " + quote(path) + " does not exist", e);
    } catch (IOException e) {
      throw unreadable(what + " " + quote(path), e);
    }
  }

  private static boolean mayHoldDataOf(Path realDirectory, Path realFile) {
    return realFile.startsWith(realDirectory)
        || hubBlobs(realDirectory).filter(realFile::startsWith).isPresent();
  }

  /** The blobs directory of the Hugging Face cache that a directory is a snapshot in. */
  private static Optional<Path> hubBlobs(Path realDirectory) {
    for (Path directory = realDirectory; directory != null; directory = directory.getParent()) {
      Path snapshots = directory.getParent();
      Path repository = snapshots == null ? null : snapshots.getParent();
      if (repository != null
          && snapshots != null
          && snapshots.endsWith("snapshots")
          && repository.getFileName() != null
          && repository.getFileName().toString().startsWith("models--")) {
        return Optional.of(repository.resolve("blobs"));
      }
    }
    return Optional.empty();
  }

  private static ExternalDataFile describe(Path real, String location) {
    BasicFileAttributes attributes;
    try {
      attributes = Files.readAttributes(real, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
    } catch (IOException e) {
      throw unreadable(quote(real), e);
    }
    if (!attributes.isRegularFile()) {
      throw refusal(
          "external.not-regular", location, "is " + quote(real) + ", not a regular file", null);
    }
    if (!Files.isReadable(real)) {
      throw refusal(
          "external.unreadable",
          location,
          "is " + quote(real) + ", which this process may not read",
          null);
    }
    return new ExternalDataFile(real, attributes.size(), attributes.lastModifiedTime());
  }

  private static Path parent(Path absolute) {
    Path parent = absolute.getParent();
    return parent == null ? absolute : parent;
  }

  private static EpException refusal(
      String code, String location, String problem, @Nullable Throwable cause) {
    return new EpException(
        code, "external data location " + Printable.quote(location) + " " + problem, cause);
  }

  private static EpException unreadable(String what, IOException cause) {
    return new EpException(
        "external.unreadable",
        what + " cannot be read: " + cause.getClass().getSimpleName(),
        cause);
  }

  private static String quote(Path path) {
    return "'" + Printable.escape(path.toString(), 500) + "'";
  }
}
