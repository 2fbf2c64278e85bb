package dev.expertbank.tests.bench;

import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtLoggingLevel;
import ai.onnxruntime.OrtSession;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.ShortBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import tools.jackson.jr.ob.JSON;

/** What benchmarks share: where their files go, statistics, tensors, and the JSON that is kept. */
final class Bench {
  static final OrtEnvironment ENVIRONMENT = OrtEnvironment.getEnvironment();

  private Bench() {}

  /** Where models are written, and found by the next benchmark. */
  static Path folder() throws IOException {
    return Files.createDirectories(
        Path.of(System.getProperty("expertbank.bench.folder", "/tmp/expertbank-bench")));
  }

  /** Argument {@code index}, or what it is by default. */
  static int argument(String[] arguments, int index, int otherwise) {
    return index < arguments.length ? Integer.parseInt(arguments[index]) : otherwise;
  }

  /** Writes the object to the file that {@code expertbank.bench.json} names, if it names one. */
  static void write(Map<String, Object> json) throws IOException {
    String file = System.getProperty("expertbank.bench.json");
    if (file != null) {
      Files.writeString(Path.of(file), JSON.std.asString(json));
    }
  }

  static double median(double[] values) {
    return percentile(values, 50);
  }

  /** The smallest value that so many percent of all do not exceed. */
  static double percentile(double[] values, int percent) {
    double[] sorted = values.clone();
    Arrays.sort(sorted);
    return sorted[Math.max(0, Math.ceilDiv(sorted.length * percent, 100) - 1)];
  }

  static double secondsSince(long nanoTime) {
    return (System.nanoTime() - nanoTime) * 1e-9;
  }

  /** Session options without ONNX Runtime's warnings, which would hide the table. */
  static OrtSession.SessionOptions sessionOptions() throws OrtException {
    var options = new OrtSession.SessionOptions();
    options.setSessionLogLevel(OrtLoggingLevel.ORT_LOGGING_LEVEL_ERROR);
    return options;
  }

  /** A tensor of these numbers, rounded to float16. */
  static OnnxTensor float16(float[] values, long... shape) throws OrtException {
    ShortBuffer halves =
        ByteBuffer.allocateDirect(values.length * Short.BYTES)
            .order(ByteOrder.nativeOrder())
            .asShortBuffer();
    for (float value : values) {
      halves.put(Float.floatToFloat16(value));
    }
    return OnnxTensor.createTensor(ENVIRONMENT, halves.rewind(), shape, OnnxJavaType.FLOAT16);
  }

  /** The bits of a tensor of float16. */
  static short[] halves(OnnxTensor tensor) {
    ByteBuffer bytes = tensor.getByteBuffer();
    short[] halves = new short[bytes.remaining() / Short.BYTES];
    bytes.order(ByteOrder.nativeOrder()).asShortBuffer().get(halves);
    return halves;
  }
}
