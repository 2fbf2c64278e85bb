package dev.expertbank.spi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ExternalDataFileTest {
  private Path root;
  private Path models;
  private Path secret;

  @BeforeEach
  void createDirectories(@TempDir Path temporary) throws IOException {
    root = temporary.toRealPath();
    models = Files.createDirectory(root.resolve("models"));
    secret = Files.writeString(root.resolve("secret"), "secret");
    Files.write(models.resolve("weights.bin"), new byte[100]);
  }

  @Test
  void findsAFileBesideTheModel() {
    ExternalDataFile file = ExternalDataFile.resolve(models, "weights.bin");

    assertThat(file.path()).isEqualTo(models.resolve("weights.bin"));
    assertThat(file.size()).isEqualTo(100);
    assertThat(file.lastModified().toInstant()).isAfter(Instant.EPOCH);
  }

  @Test
  void findsAFileBelowTheModelsDirectory() throws IOException {
    Files.createDirectories(models.resolve("a/b"));
    Files.write(models.resolve("a/b/w"), new byte[7]);

    assertThat(ExternalDataFile.resolve(models, "a/b/w").size()).isEqualTo(7);
    assertThat(ExternalDataFile.resolve(models, "./a/b/w").size()).isEqualTo(7);
  }

  @Test
  void aRelativeModelDirectoryWorks() throws IOException {
    Path relative = Path.of("").toAbsolutePath().relativize(models);

    assertThat(ExternalDataFile.resolve(relative, "weights.bin").path())
        .isEqualTo(models.resolve("weights.bin"));
    assertThat(ExternalDataFile.modelDirectory(Path.of("pom.xml")))
        .isEqualTo(Path.of("").toRealPath());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "../secret",
        "../../../../etc/passwd",
        "sub/../../secret",
        "sub/../weights.bin",
        "..",
        "./..",
        "..\\..\\secret",
        "sub\\..\\..\\secret",
      })
  void parentPartsAreRefused(String location) {
    assertThat(refusal(location)).isEqualTo("external.path-escape");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "/etc/passwd",
        "//host/share",
        "\\\\host\\share\\x",
        "\\x",
        "C:\\x",
        "C:x",
        "c:/x"
      })
  void absoluteLocationsOfAnySystemAreRefused(String location) {
    assertThat(refusal(location)).isEqualTo("external.absolute");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        ".",
        "./",
        "sub/",
        "a//b",
        "a/./b",
        "a\\b",
        "weights.bin\0",
        "weights\n.bin",
        "weights.bin.",
        "weights.bin ",
        "file:///etc/passwd",
      })
  void whatDoesNotNameAPlainFileIsRefused(String location) {
    assertThat(refusal(location)).isEqualTo("external.location");
  }

  @Test
  void anEndlessLocationIsRefusedInAShortMessage() {
    EpException e = refuse(models, "x".repeat(5000));

    assertThat(e.code()).isEqualTo("external.location");
    assertThat(e).message().hasSizeLessThan(300);
  }

  @Test
  void percentSequencesAreLiteral() throws IOException {
    Files.createDirectory(models.resolve("%2e%2e"));
    Files.write(models.resolve("%2e%2e/x"), new byte[3]);

    assertThat(ExternalDataFile.resolve(models, "%2e%2e/x").size()).isEqualTo(3);
  }

  @ParameterizedTest
  @ValueSource(strings = {"*/_ORT_MEM_ADDR_/*", "*/_ORT_NATIVE_ENDIAN_MEM_ADDR_/*"})
  void memoryAddressesAreRefused(String location) {
    assertThat(refusal(location)).isEqualTo("external.memory-tag");
  }

  @Test
  void aLinkOutOfTheDirectoryIsRefused() throws IOException {
    Files.createSymbolicLink(models.resolve("w"), secret);

    assertThat(refusal("w")).isEqualTo("external.symlink");
  }

  @Test
  void aParentThatIsALinkOutOfTheDirectoryIsRefused() throws IOException {
    Files.createSymbolicLink(models.resolve("rootlink"), Path.of("/"));

    assertThat(refusal("rootlink/etc/passwd")).isEqualTo("external.symlink");
  }

  @Test
  void aDirectoryWhoseNameOnlyStartsAlikeIsOutside() throws IOException {
    Files.createDirectory(root.resolve("models-private"));
    Files.write(root.resolve("models-private/w"), new byte[1]);
    Files.createSymbolicLink(models.resolve("w"), root.resolve("models-private/w"));

    assertThat(refusal("w")).isEqualTo("external.symlink");
  }

  @Test
  void aLinkInsideTheDirectoryIsFollowed() throws IOException {
    Files.createSymbolicLink(models.resolve("w"), Path.of("weights.bin"));

    assertThat(ExternalDataFile.resolve(models, "w").path())
        .isEqualTo(models.resolve("weights.bin"));
  }

  @Test
  void aModelDirectoryThatIsALinkWorks() throws IOException {
    Path link = Files.createSymbolicLink(root.resolve("current"), models);

    assertThat(ExternalDataFile.resolve(link, "weights.bin").path())
        .isEqualTo(models.resolve("weights.bin"));
  }

  @Test
  void aModelFileThatIsALinkHasItsDataBesideTheRealFile() throws IOException {
    Path model = Files.createFile(models.resolve("model.onnx"));
    Path shelf = Files.createDirectory(root.resolve("shelf"));
    Path link = Files.createSymbolicLink(shelf.resolve("m.onnx"), model);

    assertThat(ExternalDataFile.modelDirectory(link)).isEqualTo(models);
    assertThat(ExternalDataFile.modelDirectory(model)).isEqualTo(models);
  }

  @Test
  void aModelFileLinkedWithinItsDirectoryKeepsThatDirectory() throws IOException {
    Path annex = Files.createDirectories(models.resolve(".annex/objects"));
    Files.createFile(annex.resolve("model-key"));
    Path link = Files.createSymbolicLink(models.resolve("m.onnx"), annex.resolve("model-key"));

    assertThat(ExternalDataFile.modelDirectory(link)).isEqualTo(models);
  }

  @Test
  void aSnapshotInAHubCacheReadsItsBlobs() throws IOException {
    Path snapshot = hubSnapshot("models--org--name");

    Path directory = ExternalDataFile.modelDirectory(snapshot.resolve("model.onnx"));
    ExternalDataFile data = ExternalDataFile.resolve(directory, "model.onnx.data");

    assertThat(data.path()).isEqualTo(snapshot.resolve("../../../blobs/b2").normalize());
    assertThat(data.size()).isEqualTo(50);
  }

  @Test
  void aSnapshotInAHubCacheReadsNothingElse() throws IOException {
    Path snapshot = hubSnapshot("models--org--name");
    Files.createSymbolicLink(snapshot.resolve("w"), secret);
    Files.createSymbolicLink(snapshot.resolve("other"), models.resolve("weights.bin"));

    assertThat(refuse(snapshot, "w").code()).isEqualTo("external.symlink");
    assertThat(refuse(snapshot, "other").code()).isEqualTo("external.symlink");
  }

  @Test
  void blobsThatAreALinkElsewhereAreOutside() throws IOException {
    Path repository = Files.createDirectory(root.resolve("models--org--evil"));
    Path snapshot = Files.createDirectories(repository.resolve("snapshots/r1"));
    Files.createSymbolicLink(repository.resolve("blobs"), root);
    Files.createSymbolicLink(snapshot.resolve("w"), Path.of("../../blobs/secret"));

    assertThat(refuse(snapshot, "w").code()).isEqualTo("external.symlink");
  }

  @Test
  void aDirectoryThatOnlyLooksLikeAHubCacheIsNone() throws IOException {
    Path snapshot = hubSnapshot("repository");

    assertThat(refuse(snapshot, "model.onnx.data").code()).isEqualTo("external.symlink");
  }

  @Test
  void aMissingFileIsNamed() {
    EpException e = refuse(models, "nothing.bin");

    assertThat(e.code()).isEqualTo("external.missing");
    assertThat(e).hasMessageContaining("nothing.bin").hasMessageContaining(models.toString());
  }

  @Test
  void aLinkToNothingIsMissing() throws IOException {
    Files.createSymbolicLink(models.resolve("w"), root.resolve("gone"));

    assertThat(refusal("w")).isEqualTo("external.missing");
  }

  @Test
  void aLinkToItselfIsUnreadable() throws IOException {
    Files.createSymbolicLink(models.resolve("w"), Path.of("w"));

    assertThat(refusal("w")).isEqualTo("external.unreadable");
  }

  @Test
  void aDirectoryIsNoDataFile() throws IOException {
    Files.createDirectory(models.resolve("sub"));

    assertThat(refusal("sub")).isEqualTo("external.not-regular");
  }

  @Test
  @Timeout(20)
  void aFifoIsRefusedWithoutOpeningIt() throws IOException, InterruptedException {
    Path fifo = models.resolve("fifo");
    Assumptions.assumeTrue(new ProcessBuilder("mkfifo", fifo.toString()).start().waitFor() == 0);

    assertThat(refusal("fifo")).isEqualTo("external.not-regular");
  }

  @Test
  void aFileWithoutPermissionIsUnreadable() throws IOException {
    Path file = models.resolve("weights.bin");
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("---------"));
    Assumptions.assumeFalse(Files.isReadable(file), "this user may read everything");

    assertThat(refusal("weights.bin")).isEqualTo("external.unreadable");
  }

  @ParameterizedTest
  @CsvSource({"0,100", "100,0", "0,0", "99,1", "40,20"})
  void rangesInsideTheFileAreAccepted(long offset, long length) {
    ExternalDataFile.resolve(models, "weights.bin").checkRange(offset, length, "w");
  }

  @ParameterizedTest
  @CsvSource({
    "0,101",
    "100,1",
    "101,0",
    "-1,1",
    "1,-1",
    "-16,32", // 2^64 - 16 as a signed number
    "9223372036854775807,1",
    "1,9223372036854775807",
    "-9223372036854775808,-9223372036854775808",
  })
  void rangesBeyondTheFileAreRefused(long offset, long length) {
    ExternalDataFile file = ExternalDataFile.resolve(models, "weights.bin");

    EpException e =
        catchThrowableOfType(EpException.class, () -> file.checkRange(offset, length, "fc1 'w'"));

    assertThat(e.code()).isEqualTo("external.range");
    assertThat(e)
        .hasMessageContaining("fc1 'w'")
        .hasMessageContaining("weights.bin")
        .hasMessageContaining("100 bytes");
  }

  @Test
  void messagesShowControlCharactersEscaped() {
    EpException e = refuse(models, "a\u001b[2Jb");

    assertThat(e).hasMessageContaining("a\\u{1b}[2Jb").message().doesNotContain("\u001b");
  }

  @Test
  void opensTheFileForReading() throws IOException {
    try (FileChannel channel = ExternalDataFile.resolve(models, "weights.bin").open()) {
      assertThat(channel.size()).isEqualTo(100);
    }
  }

  @Test
  void aFileThatChangedIsNotOpened() throws IOException {
    Path path = models.resolve("weights.bin");
    ExternalDataFile file = ExternalDataFile.resolve(models, "weights.bin");
    Files.write(path, new byte[99]);
    Files.setLastModifiedTime(path, file.lastModified());
    assertThat(catchThrowableOfType(EpException.class, file::open).code())
        .isEqualTo("external.changed");

    Files.write(path, new byte[100]);
    Files.setLastModifiedTime(path, FileTime.from(Instant.EPOCH));
    assertThat(catchThrowableOfType(EpException.class, file::open).code())
        .isEqualTo("external.changed");
  }

  @Test
  void aLinkThatTookTheFilesPlaceIsNotOpened() throws IOException {
    Path path = models.resolve("weights.bin");
    ExternalDataFile file = ExternalDataFile.resolve(models, "weights.bin");
    Files.move(path, root.resolve("moved"));
    Files.createSymbolicLink(path, root.resolve("moved"));

    assertThat(catchThrowableOfType(EpException.class, file::open).code())
        .isEqualTo("external.unreadable");
  }

  private String refusal(String location) {
    return refuse(models, location).code();
  }

  private static EpException refuse(Path directory, String location) {
    return catchThrowableOfType(
        EpException.class, () -> ExternalDataFile.resolve(directory, location));
  }

  /** A cache laid out as the hub client does: files are links into a directory of blobs. */
  private Path hubSnapshot(String repositoryName) throws IOException {
    Path repository = Files.createDirectory(root.resolve(repositoryName));
    Path blobs = Files.createDirectory(repository.resolve("blobs"));
    Path snapshot = Files.createDirectories(repository.resolve("snapshots/r1/onnx"));
    Files.write(blobs.resolve("b1"), new byte[10]);
    Files.write(blobs.resolve("b2"), new byte[50]);
    Files.createSymbolicLink(snapshot.resolve("model.onnx"), Path.of("../../../blobs/b1"));
    Files.createSymbolicLink(snapshot.resolve("model.onnx.data"), Path.of("../../../blobs/b2"));
    return snapshot;
  }
}
