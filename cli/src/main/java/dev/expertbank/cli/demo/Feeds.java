package dev.expertbank.cli.demo;

import ai.onnxruntime.NodeInfo;
import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OnnxTensorLike;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import ai.onnxruntime.TensorInfo;
import dev.expertbank.spi.EpException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * Made-up inputs for any model: random numbers in [-1, 1) for floating-point inputs, zeros for the
 * others. A dimension that is named for a batch is 1, one named for a past is 0, and any other
 * dynamic one is the number of tokens.
 */
final class Feeds implements AutoCloseable {
  private final Map<String, OnnxTensorLike> tensors = new HashMap<>();

  private Feeds() {}

  static Feeds of(OrtEnvironment environment, OrtSession session, int tokens, long seed)
      throws OrtException {
    Feeds feeds = new Feeds();
    SplittableRandom random = new SplittableRandom(seed);
    for (NodeInfo input : session.getInputInfo().values()) {
      if (!(input.getInfo() instanceof TensorInfo info)) {
        throw new EpException("demo.input", "input " + input.getName() + " is not a tensor");
      }
      feeds.tensors.put(input.getName(), tensor(environment, info, tokens, random));
    }
    return feeds;
  }

  Map<String, OnnxTensorLike> tensors() {
    return tensors;
  }

  private static OnnxTensor tensor(
      OrtEnvironment environment, TensorInfo info, int tokens, SplittableRandom random)
      throws OrtException {
    long[] shape = info.getShape();
    String[] names = info.getDimensionNames();
    long elements = 1;
    for (int i = 0; i < shape.length; i++) {
      if (shape[i] < 0) {
        shape[i] = dynamicDim(names[i], tokens);
      }
      elements *= shape[i];
    }
    ByteBuffer data =
        ByteBuffer.allocateDirect(Math.toIntExact(elements * info.type.size))
            .order(ByteOrder.nativeOrder());
    fill(data, info.type, elements, random);
    return OnnxTensor.createTensor(environment, data.rewind(), shape, info.type);
  }

  private static long dynamicDim(String name, int tokens) {
    String lower = name.toLowerCase(Locale.ROOT);
    return lower.contains("batch") ? 1 : lower.contains("past") ? 0 : tokens;
  }

  private static void fill(
      ByteBuffer data, OnnxJavaType type, long elements, SplittableRandom random) {
    for (long i = 0; i < elements; i++) {
      float value = (float) random.nextDouble(-1, 1);
      switch (type) {
        case FLOAT -> data.putFloat(value);
        case DOUBLE -> data.putDouble(value);
        case FLOAT16 -> data.putShort(Float.floatToFloat16(value));
        case BFLOAT16 -> data.putShort((short) (Float.floatToRawIntBits(value) >>> 16));
        default -> {
          return; // zeros
        }
      }
    }
  }

  @Override
  public void close() {
    tensors.values().forEach(OnnxTensorLike::close);
  }
}
