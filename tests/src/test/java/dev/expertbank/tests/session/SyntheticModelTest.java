package dev.expertbank.tests.session;

import static dev.expertbank.tests.session.SmallQMoe.ENVIRONMENT;
import static org.assertj.core.api.Assertions.assertThat;

import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.expertbank.model.SyntheticModel;
import dev.expertbank.model.SyntheticModelWriter;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.qmoe.WeightLayout;
import dev.expertbank.tests.TestDevice;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Deep synthetic models: stock ONNX Runtime runs them, and values stay near unit variance. */
class SyntheticModelTest {
  private static final int HIDDEN = 128;
  private static final int TOKENS = 16;
  private static final int LAYERS = 24;

  @TempDir private Path directory;

  /** Blocks of 32 with 2 bits are left out: there ONNX Runtime's lookup tables are inexact. */
  @ParameterizedTest
  @CsvSource({
    "FLOAT, 2, 16",
    "FLOAT, 4, 0",
    "FLOAT, 4, 32",
    "FLOAT, 8, 32",
    "FLOAT16, 4, 32",
    "BFLOAT16, 4, 32"
  })
  void valuesNeitherVanishNorExplode(ElementType type, int bits, int blockSize)
      throws OrtException {
    SyntheticModel model =
        SyntheticModel.builder()
            .geometry(HIDDEN, 192, 8, 2)
            .quantization(bits, blockSize)
            .layers(LAYERS)
            .types(type, type)
            .build();
    Path file =
        SyntheticModelWriter.write(
                model, directory.resolve("deep.onnx"), false, SyntheticModelWriter.Progress.NONE)
            .model();

    float[][] ours;
    try (var open = SmallQMoe.open(file, Map.of())) {
      ours = run(open.session(), type);
      assertThat(open.registration().sessions().getLast().placement().claimed()).hasSize(LAYERS);
    }

    assertThat(rootMeanSquare(ours)).isBetween(0.3, 20.0);
    if (type != ElementType.BFLOAT16) { // ONNX Runtime's CPU provider has no bfloat16 QMoE.
      try (var options = new OrtSession.SessionOptions();
          var stock = ENVIRONMENT.createSession(file.toString(), options)) {
        float[][] theirs = run(stock, type);
        assertThat(rootMeanSquare(theirs)).isBetween(0.3, 20.0);
        if (type == ElementType.FLOAT) {
          assertThat(rootMeanSquare(difference(ours, theirs)))
              .isLessThan(1e-3 * rootMeanSquare(theirs));
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {4, 8})
  void theLayoutOfTheWeightsDoesNotChangeTheOutput(int bits) throws OrtException {
    TestDevice.assumeSm80();
    List<float[][]> outputs = new ArrayList<>();
    for (WeightLayout layout : WeightLayout.values()) {
      SyntheticModel model =
          SyntheticModel.builder()
              .geometry(HIDDEN, 192, 8, 2)
              .quantization(bits, 32)
              .layout(layout)
              .layers(LAYERS)
              .build();
      Path file =
          SyntheticModelWriter.write(
                  model,
                  directory.resolve(layout + ".onnx"),
                  false,
                  SyntheticModelWriter.Progress.NONE)
              .model();
      try (var open = SmallQMoe.open(file, Map.of())) {
        outputs.add(run(open.session(), ElementType.FLOAT));
      }
    }

    float[][] plain = outputs.getFirst();
    assertThat(rootMeanSquare(difference(plain, outputs.getLast())))
        .isLessThan(1e-3 * rootMeanSquare(plain));
  }

  private static float[][] run(OrtSession session, ElementType type) throws OrtException {
    SplittableRandom random = new SplittableRandom(1);
    int width = type.bits() / 8;
    ByteBuffer values =
        ByteBuffer.allocateDirect(TOKENS * HIDDEN * width).order(ByteOrder.nativeOrder());
    while (values.hasRemaining()) {
      float value = (float) random.nextGaussian();
      switch (type) {
        case FLOAT -> values.putFloat(value);
        case FLOAT16 -> values.putShort(Float.floatToFloat16(value));
        default -> values.putShort((short) (Float.floatToRawIntBits(value) >>> 16));
      }
    }
    OnnxJavaType javaType = OnnxJavaType.valueOf(type.name());
    try (OnnxTensor tensor =
            OnnxTensor.createTensor(
                ENVIRONMENT, values.flip(), new long[] {TOKENS, HIDDEN}, javaType);
        OrtSession.Result result = session.run(Map.of("hidden_states", tensor))) {
      return (float[][]) result.get(0).getValue();
    }
  }

  private static double rootMeanSquare(float[][] values) {
    double squares = 0;
    for (float[] row : values) {
      for (float value : row) {
        squares += (double) value * value;
      }
    }
    return Math.sqrt(squares / (TOKENS * HIDDEN));
  }

  private static float[][] difference(float[][] a, float[][] b) {
    float[][] difference = new float[a.length][HIDDEN];
    for (int t = 0; t < a.length; t++) {
      for (int i = 0; i < HIDDEN; i++) {
        difference[t][i] = a[t][i] - b[t][i];
      }
    }
    return difference;
  }
}
