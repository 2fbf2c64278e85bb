package dev.expertbank.tests.packaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.natives.NativeLibrary;
import dev.expertbank.tests.ChildJvm;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Extraction into the cache folder that the system property names, in JVMs of their own. */
class NativeLibraryTest {
  @TempDir Path cache;

  /** Prints the extracted file. */
  public static final class Extract {
    private Extract() {}

    public static void main(String[] arguments) {
      try {
        System.out.println("extracted " + NativeLibrary.extract("expertbank_qmoe_host"));
      } catch (RuntimeException e) {
        System.out.println("failed " + e.getMessage());
      }
    }
  }

  @Test
  void jvmsThatStartAtOnceShareOneFile() throws Exception {
    List<Callable<String>> children = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      children.add(() -> extract(cache));
    }
    List<String> outputs = new ArrayList<>();
    try (var pool = Executors.newFixedThreadPool(3)) {
      for (Future<String> child : pool.invokeAll(children)) {
        outputs.add(child.get());
      }
    }
    assertThat(outputs).allMatch(o -> o.startsWith("extracted " + cache)).hasSize(3);
    assertThat(outputs.stream().distinct()).hasSize(1);
    assertThat(files()).as("no temporary file is left").hasSize(1);
  }

  @Test
  void aFileWithOtherContentIsReplacedBeforeItIsUsed() throws Exception {
    Path file = Path.of(extract(cache).substring("extracted ".length()).trim());
    byte[] good = Files.readAllBytes(file);
    Files.write(file, new byte[good.length]);
    extract(cache);
    assertThat(Files.readAllBytes(file)).isEqualTo(good);
  }

  @Test
  void aLinkIsReplacedByTheFile() throws Exception {
    Path file = Path.of(extract(cache).substring("extracted ".length()).trim());
    Path elsewhere = Files.move(file, cache.resolve("elsewhere"));
    Files.createSymbolicLink(file, elsewhere);
    extract(cache);
    assertThat(file).isRegularFile();
    assertThat(Files.isSymbolicLink(file)).isFalse();
  }

  @Test
  void aFolderThatCannotBeMadeIsAnErrorThatNamesTheProperty() throws Exception {
    Path blocked = Files.createFile(cache.resolve("a-file"));
    assertThat(extract(blocked))
        .startsWith("failed cannot extract")
        .contains("-Dexpertbank.native.cache=<folder>");
  }

  @Test
  void theFolderIsForItsOwnerAlone() throws Exception {
    Path file = Path.of(extract(cache).substring("extracted ".length()).trim());
    Path folder = java.util.Objects.requireNonNull(file.getParent());
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
    Files.delete(file);
    extract(cache);
    assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(folder)))
        .isEqualTo("rwx------");
  }

  private static String extract(Path cache) throws Exception {
    return ChildJvm.run(Extract.class, List.of("-D" + NativeLibrary.CACHE_PROPERTY + "=" + cache))
        .output()
        .trim();
  }

  private List<Path> files() throws Exception {
    try (Stream<Path> paths = Files.walk(cache)) {
      return paths.filter(Files::isRegularFile).toList();
    }
  }
}
