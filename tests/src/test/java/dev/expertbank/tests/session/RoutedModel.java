package dev.expertbank.tests.session;

import static dev.expertbank.tests.session.SmallQMoe.ENVIRONMENT;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OnnxTensorLike;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.expertbank.model.SyntheticModel;
import dev.expertbank.model.SyntheticModelWriter;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.tests.TestDevice;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * A model of granite's 24 layers of 32 experts, small ones, whose routes are given from outside.
 */
final class RoutedModel {
  static final int LAYERS = 24;
  static final int EXPERTS = 32;
  static final int TOP_K = 8;
  static final int HIDDEN = 32;

  /**
   * Weights, scales and biases of both projections, worked out by hand: each a multiple of 64, so
   * that nothing is lost to alignment inside of a slot.
   */
  static final long EXPERT_BYTES = (1024 + 512 + 256) + (512 + 256 + 128);

  static final long SLOT_BYTES = TestDevice.slotBytes(EXPERT_BYTES);

  static final ResidencyLayout LAYOUT =
      new ResidencyLayout(
          Collections.nCopies(
              LAYERS, LayerLayout.pageable(EXPERTS, TOP_K, EXPERT_BYTES, SLOT_BYTES)));

  private RoutedModel() {}

  static Path write(Path directory) {
    return write(directory, LAYERS);
  }

  /** Only the first layers. */
  static Path write(Path directory, int layers) {
    SyntheticModel model =
        SyntheticModel.builder()
            .geometry(HIDDEN, 32, EXPERTS, TOP_K)
            .quantization(4, 16)
            .layers(layers)
            .routerInputs(true)
            .seed(7)
            .build();
    return SyntheticModelWriter.write(
            model, directory.resolve("routed.onnx"), false, SyntheticModelWriter.Progress.NONE)
        .model();
  }

  /**
   * One run.
   *
   * @param routes {@code [rows][layers][top k]}
   */
  static float[][] run(OrtSession session, int[][]... routes) throws OrtException {
    Map<String, OnnxTensorLike> feeds = new HashMap<>();
    try {
      for (String input : session.getInputNames()) {
        feeds.put(input, OnnxTensor.createTensor(ENVIRONMENT, values(input, routes)));
      }
      try (OrtSession.Result result = session.run(feeds)) {
        return (float[][]) result.get(0).getValue();
      }
    } finally {
      feeds.values().forEach(OnnxTensorLike::close);
    }
  }

  private static float[][] values(String input, int[][][] routes) {
    if (!input.endsWith("router_logits")) {
      float[][] tokens = new float[routes.length][HIDDEN];
      SplittableRandom random = new SplittableRandom(routes.length);
      for (float[] token : tokens) {
        for (int i = 0; i < HIDDEN; i++) {
          token[i] = (float) random.nextDouble(-1, 1);
        }
      }
      return tokens;
    }
    int layer = Integer.parseInt(input.split("\\.", -1)[1]);
    float[][] logits = new float[routes.length][EXPERTS];
    for (int row = 0; row < routes.length; row++) {
      java.util.Arrays.fill(logits[row], -20);
      for (int rank = 0; rank < TOP_K; rank++) {
        logits[row][routes[row][layer][rank]] = 1 - rank / 8f;
      }
    }
    return logits;
  }
}
