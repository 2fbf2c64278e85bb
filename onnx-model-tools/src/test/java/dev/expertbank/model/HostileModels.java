package dev.expertbank.model;

import ai.onnx.proto.OnnxMl.StringStringEntryProto;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What tests of broken model files share. */
final class HostileModels {
  private HostileModels() {}

  static StringStringEntryProto entry(String key, String value) {
    return StringStringEntryProto.newBuilder().setKey(key).setValue(value).build();
  }

  static OnnxModel read(Path directory, byte[] bytes) {
    try {
      Path file = Files.write(directory.resolve("model.onnx"), bytes);
      return OnnxModelReader.read(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
