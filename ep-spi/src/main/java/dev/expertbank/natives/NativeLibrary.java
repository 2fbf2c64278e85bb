package dev.expertbank.natives;

import dev.expertbank.spi.EpException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Set;

/**
 * Extracts native libraries from the {@code kernels} jar into a per-user cache, in a folder named
 * by the content's hash, so that versions live side by side and a file is written once.
 *
 * <p>The cache is {@code $XDG_CACHE_HOME/expertbank} or {@code ~/.cache/expertbank} (on macOS
 * {@code ~/Library/Caches/expertbank}); the system property {@code expertbank.native.cache} names
 * another folder. Files appear by atomic rename, so two JVMs may extract at once; an existing file
 * is used only if its content is what the jar has.
 */
public final class NativeLibrary {
  /** System property that overrides the cache folder. */
  public static final String CACHE_PROPERTY = "expertbank.native.cache";

  private NativeLibrary() {}

  /**
   * The library's file in the cache.
   *
   * @param name without prefix and suffix, for example {@code expertbank_qmoe_host}
   * @throws EpException {@code native.platform}, {@code native.missing} or {@code native.extract}
   */
  public static Path extract(String name) {
    return extract(name, System.mapLibraryName(name));
  }

  /**
   * A copy of the library under a name of its own, so that the loader gives it statics of its own.
   *
   * @param copy letters and digits, part of the file's name
   */
  public static Path extractCopy(String name, String copy) {
    return extract(name, System.mapLibraryName(name + "-" + copy));
  }

  /** The resource folder of this platform, for example {@code linux-x64}. */
  public static String platform() {
    String os = System.getProperty("os.name", "").toLowerCase(Locale.ROOT);
    String arch = System.getProperty("os.arch", "").toLowerCase(Locale.ROOT);
    String osPart = os.contains("linux") ? "linux" : os.contains("mac") ? "osx" : null;
    String archPart =
        switch (arch) {
          case "amd64", "x86_64" -> "x64";
          case "aarch64", "arm64" -> "aarch64";
          default -> null;
        };
    if (osPart == null || archPart == null) {
      throw new EpException(
          "native.platform",
          "no native libraries for "
              + os
              + " on "
              + arch
              + ": expertbank runs on Linux and macOS, x86-64 and AArch64");
    }
    return osPart + "-" + archPart;
  }

  private static Path extract(String name, String fileName) {
    byte[] content = content(System.mapLibraryName(name));
    Path directory = cache().resolve(sha256(content).substring(0, 16));
    Path target = directory.resolve(fileName);
    try {
      if (!hasContent(directory, target, content)) {
        createPrivateDirectory(directory);
        write(directory, target, content);
      }
      return target;
    } catch (IOException e) {
      throw new EpException(
          "native.extract",
          "cannot extract "
              + fileName
              + " to "
              + directory
              + " ("
              + e
              + "): make that folder writable or set -D"
              + CACHE_PROPERTY
              + "=<folder>",
          e);
    }
  }

  /**
   * What the {@code kernels} jar has for this platform under that name.
   *
   * @param file for example {@code cuda/route.fatbin}
   * @throws EpException {@code native.platform} or {@code native.missing}
   */
  public static byte[] content(String file) {
    String resource = "dev/expertbank/native/" + platform() + "/" + file;
    // Through the loader, not the class: on the module path the resource is in another module.
    try (InputStream in = NativeLibrary.class.getClassLoader().getResourceAsStream(resource)) {
      if (in == null) {
        throw new EpException(
            "native.missing",
            "the class path has no "
                + resource
                + ": add the dev.expertbank:kernels jar that was built on this platform");
      }
      return in.readAllBytes();
    } catch (IOException e) {
      throw new EpException("native.missing", "cannot read " + resource + ": " + e, e);
    }
  }

  private static Path cache() {
    String override = System.getProperty(CACHE_PROPERTY);
    if (override != null && !override.isBlank()) {
      return Path.of(override).toAbsolutePath();
    }
    Path home = Path.of(System.getProperty("user.home", ".")).toAbsolutePath();
    if (platform().startsWith("osx")) {
      return home.resolve("Library/Caches/expertbank");
    }
    String xdg = System.getenv("XDG_CACHE_HOME");
    Path base = xdg == null || xdg.isBlank() ? home.resolve(".cache") : Path.of(xdg);
    return base.toAbsolutePath().resolve("expertbank");
  }

  /** A link or a file of another user would let somebody else choose the code that we load. */
  private static boolean hasContent(Path directory, Path file, byte[] content) throws IOException {
    return Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)
        && Files.getOwner(file).equals(Files.getOwner(directory))
        && Files.size(file) == content.length
        && MessageDigest.isEqual(Files.readAllBytes(file), content);
  }

  private static void createPrivateDirectory(Path directory) throws IOException {
    Files.createDirectories(directory);
    if (Files.getFileStore(directory).supportsFileAttributeView("posix")) {
      Set<PosixFilePermission> permissions =
          Files.getPosixFilePermissions(directory, LinkOption.NOFOLLOW_LINKS);
      if (permissions.contains(PosixFilePermission.OTHERS_WRITE)) {
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwx------"));
      }
    }
  }

  private static void write(Path directory, Path target, byte[] content) throws IOException {
    Path temporary = Files.createTempFile(directory, target.getFileName() + ".", ".part");
    try {
      Files.write(temporary, content);
      try {
        Files.move(
            temporary, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
      } catch (AtomicMoveNotSupportedException | FileAlreadyExistsException e) {
        Files.move(temporary, target, StandardCopyOption.REPLACE_EXISTING);
      }
    } finally {
      Files.deleteIfExists(temporary);
    }
  }

  private static String sha256(byte[] content) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }
}
