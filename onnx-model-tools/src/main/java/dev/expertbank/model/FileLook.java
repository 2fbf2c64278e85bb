package dev.expertbank.model;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Optional;

/** Says what a file that is no ONNX model looks like. */
final class FileLook {
  private static final int SAMPLE_BYTES = 512;

  private FileLook() {}

  /** What the file looks like; empty when that cannot be told. */
  static Optional<String> at(Path file) throws IOException {
    try (InputStream in = Files.newInputStream(file)) {
      return of(in.readNBytes(SAMPLE_BYTES));
    }
  }

  /** What a file that begins with these bytes looks like; empty when that cannot be told. */
  static Optional<String> of(byte[] bytes) {
    byte[] head = Arrays.copyOf(bytes, Math.min(bytes.length, SAMPLE_BYTES));
    if (startsWith(head, "GGUF")) {
      return Optional.of("it looks like a GGUF model (llama.cpp)");
    }
    if (startsWith(head, "PK\3\4")) {
      return Optional.of("it looks like a ZIP archive, for example a PyTorch model; unpack it");
    }
    if (startsWith(head, "\u001f\u008b") || tar(head)) {
      return Optional.of("it looks like a compressed archive; unpack it");
    }
    if (startsWith(head, "version https://git-lfs.github.com/")) {
      return Optional.of("it is a Git LFS pointer; fetch the real file with 'git lfs pull'");
    }
    if (startsWith(head, "ORTM", 4)) {
      return Optional.of("it looks like an ORT format model; use the .onnx file it was made from");
    }
    if (head.length > 9 && head[8] == '{' && head[9] == '"') {
      return Optional.of("it looks like a safetensors file");
    }
    if (text(head)) {
      return Optional.of("it looks like text");
    }
    return Optional.empty();
  }

  private static boolean startsWith(byte[] head, String magic) {
    return startsWith(head, magic, 0);
  }

  private static boolean startsWith(byte[] head, String magic, int offset) {
    byte[] expected = magic.getBytes(StandardCharsets.ISO_8859_1);
    return head.length >= offset + expected.length
        && Arrays.equals(head, offset, offset + expected.length, expected, 0, expected.length);
  }

  private static boolean tar(byte[] head) {
    return startsWith(head, "ustar", 257);
  }

  private static boolean text(byte[] head) {
    for (byte b : head) {
      if (b >= 0 && b < ' ' && b != '\n' && b != '\r' && b != '\t') {
        return false;
      }
    }
    return true;
  }
}
