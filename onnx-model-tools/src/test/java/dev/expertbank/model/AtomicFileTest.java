package dev.expertbank.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.expertbank.spi.EpException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

class AtomicFileTest {
  @TempDir private Path directory;

  @Test
  void theNameAppearsAtCommit() throws IOException {
    Path target = directory.resolve("out file");
    try (AtomicFile file = AtomicFile.create(target, false)) {
      file.write(ByteBuffer.wrap(new byte[] {1, 2}));
      assertThat(target).doesNotExist();
      file.commit();
      assertThat(target).hasBinaryContent(new byte[] {1, 2});
    }
    assertThat(files()).containsExactly(target);
  }

  @Test
  void writesAtAnyPlaceAndLeavesZerosBetween() throws IOException {
    Path target = directory.resolve("out");
    try (AtomicFile file = AtomicFile.create(target, false)) {
      file.write(ByteBuffer.wrap(new byte[] {3, 4}), 3);
      file.write(ByteBuffer.wrap(new byte[] {1}), 0);
      file.commit();
    }
    assertThat(target).hasBinaryContent(new byte[] {1, 0, 0, 3, 4});
  }

  @Test
  void nothingIsLeftWithoutCommit() throws IOException {
    AtomicFile file = AtomicFile.create(directory.resolve("out"), false);
    file.write(ByteBuffer.wrap(new byte[10]));
    file.close();
    file.close();

    assertThat(files()).isEmpty();
  }

  @Test
  void keepsAnExistingFileUnlessToldOtherwise() throws IOException {
    Path target = Files.writeString(directory.resolve("out"), "old");

    assertThat(refused(target, false).code()).isEqualTo("write.exists");

    try (AtomicFile file = AtomicFile.create(target, true)) {
      file.write(ByteBuffer.wrap(new byte[] {'n'}));
      assertThat(target).hasContent("old");
      file.commit();
    }
    assertThat(target).hasContent("n");
  }

  @Test
  void keepsAFileThatAppearedMeanwhile() throws IOException {
    Path target = directory.resolve("out");
    try (AtomicFile file = AtomicFile.create(target, false)) {
      Files.writeString(target, "theirs");
      EpException e = catchThrowableOfType(EpException.class, file::commit);
      assertThat(e.code()).isEqualTo("write.exists");
    }
    assertThat(target).hasContent("theirs");
    assertThat(files()).containsExactly(target);
  }

  @Test
  @EnabledOnOs({OS.LINUX, OS.MAC})
  void neverReplacesOrFollowsWhatIsNoRegularFile() throws Exception {
    Path victim = Files.writeString(directory.resolve("victim"), "safe");
    Path link = Files.createSymbolicLink(directory.resolve("link"), victim);
    Path dangling = Files.createSymbolicLink(directory.resolve("dangling"), directory.resolve("x"));
    Path subdirectory = Files.createDirectory(directory.resolve("subdirectory"));
    Path pipe = directory.resolve("pipe");
    assertThat(new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor()).isZero();

    for (Path target : List.of(link, dangling, subdirectory, pipe)) {
      assertThat(refused(target, true).code()).as("%s", target).isEqualTo("write.not-regular");
    }
    assertThat(victim).hasContent("safe");
    assertThat(directory.resolve("x")).doesNotExist();
  }

  @Test
  void namesAMissingDirectory() {
    EpException e = refused(directory.resolve("missing").resolve("out"), false);

    assertThat(e.code()).isEqualTo("write.failed");
    assertThat(e).hasMessageContaining("missing");
  }

  private static EpException refused(Path target, boolean overwrite) {
    EpException e =
        catchThrowableOfType(EpException.class, () -> AtomicFile.create(target, overwrite).close());
    assertThat(e).as("%s", target).isNotNull();
    return e;
  }

  private List<Path> files() throws IOException {
    try (Stream<Path> list = Files.list(directory)) {
      return list.toList();
    }
  }
}
