package dev.expertbank.model;

import ai.onnx.proto.OnnxMl.ModelProto;
import ai.onnx.proto.OnnxMl.OperatorSetIdProto;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.UnsafeByteOperations;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExternalDataFile;
import dev.expertbank.spi.Printable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Reads a {@code .onnx} file: only that file, never the data beside it.
 *
 * <p>The file is untrusted. Time and memory are in proportion to its size, whatever it claims;
 * every limit is named in its error.
 */
public final class OnnxModelReader {
  private static final long TWO_GIB = 1L << 31;
  private static final int MAX_PATH_CHARACTERS = 1000;

  private OnnxModelReader() {}

  /**
   * Reads a model. External data is neither opened nor checked to exist.
   *
   * @throws EpException {@code model.unreadable}, {@code model.not-onnx}, {@code model.too-large},
   *     {@code model.malformed}, {@code model.limit}, {@code model.nesting}, {@code
   *     model.ir-version}, {@code model.duplicate}, {@code model.dims}, {@code model.tensor-size},
   *     {@code external.key}, or {@code external.number}
   */
  public static OnnxModel read(Path file) {
    try {
      Path real = file.toRealPath();
      BasicFileAttributes attributes = Files.readAttributes(real, BasicFileAttributes.class);
      if (attributes.isDirectory()) {
        throw notOnnx(file, "it is a directory; give the .onnx file in it");
      }
      if (!attributes.isRegularFile()) {
        throw notOnnx(file, "it is not a regular file, so it cannot have external data beside it");
      }
      return parse(
          file, ExternalDataFile.modelDirectory(file), bytes(file, real, attributes.size()));
    } catch (NoSuchFileException e) {
      throw new EpException("model.unreadable", shown(file) + " does not exist", e);
    } catch (AccessDeniedException e) {
      throw new EpException("model.unreadable", shown(file) + ": permission denied", e);
    } catch (IOException e) {
      throw new EpException(
          "model.unreadable",
          shown(file) + ": " + Printable.quote(String.valueOf(e.getMessage())),
          e);
    }
  }

  private static byte[] bytes(Path file, Path real, long size) throws IOException {
    if (size == 0) {
      throw notOnnx(file, "it is empty");
    }
    if (size >= TWO_GIB - 64) {
      throw FileLook.at(real)
          .map(look -> notOnnx(file, look))
          .orElseGet(
              () ->
                  new EpException(
                      "model.too-large",
                      shown(file)
                          + ": ONNX files are limited to 2 GiB; move weights to external data"));
    }
    ByteBuffer buffer = ByteBuffer.allocate((int) size);
    try (FileChannel channel = FileChannel.open(real, StandardOpenOption.READ)) {
      while (buffer.hasRemaining() && channel.read(buffer) >= 0) {
        // Until the file ends, which may be early when someone truncates it meanwhile.
      }
    }
    if (buffer.hasRemaining()) {
      throw new EpException("model.unreadable", shown(file) + " became shorter while it was read");
    }
    return buffer.array();
  }

  private static OnnxModel parse(Path file, Path directory, byte[] bytes) {
    ModelProto model;
    try {
      WireCheck.check(bytes);
      CodedInputStream input = UnsafeByteOperations.unsafeWrap(bytes).newCodedInput();
      input.enableAliasing(true);
      model = ModelProto.parseFrom(input);
    } catch (EpException e) {
      if (!e.code().equals("model.malformed")) {
        throw inFile(file, e);
      }
      throw FileLook.of(bytes)
          .map(look -> notOnnx(file, look))
          .orElseGet(
              () ->
                  new EpException(
                      e.code(),
                      shown(file) + " is not an ONNX file, or it is damaged: " + e.getMessage(),
                      e));
    } catch (InvalidProtocolBufferException e) {
      throw new EpException(
          "model.malformed",
          shown(file)
              + " is not an ONNX file, or it is damaged: "
              + Printable.quote(String.valueOf(e.getMessage())),
          e);
    } catch (IOException e) {
      throw new AssertionError("reading from memory", e);
    }
    if (model.getIrVersion() < 1) {
      throw new EpException(
          "model.ir-version", shown(file) + " states the IR version " + model.getIrVersion());
    }
    try {
      return convert(file, directory, bytes.length, model);
    } catch (EpException e) {
      throw inFile(file, e);
    }
  }

  private static OnnxModel convert(Path file, Path directory, long fileBytes, ModelProto model) {
    SortedMap<String, Long> opsets = new TreeMap<>();
    for (OperatorSetIdProto opset : model.getOpsetImportList()) {
      String domain = opset.getDomain().isEmpty() ? "ai.onnx" : opset.getDomain();
      opsets.merge(domain, opset.getVersion(), Math::max);
    }
    GraphReader reader = new GraphReader(model.getIrVersion(), opsets);
    return new OnnxModel(
        file,
        directory,
        fileBytes,
        model.getIrVersion(),
        model.getProducerName(),
        model.getProducerVersion(),
        opsets,
        reader.read(model.getGraph(), "main"),
        model.getFunctionsList().stream().map(reader::readFunction).toList());
  }

  private static EpException inFile(Path file, EpException e) {
    return new EpException(e.code(), shown(file) + ": " + e.getMessage(), e);
  }

  private static EpException notOnnx(Path file, String look) {
    return new EpException("model.not-onnx", shown(file) + " is not an ONNX file: " + look);
  }

  private static String shown(Path file) {
    return Printable.escape(file.toString(), MAX_PATH_CHARACTERS);
  }
}
