package dev.expertbank.tests;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OnnxTensorLike;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import java.util.HashMap;
import java.util.Map;

/** Runs one-node models of {@link OnnxModels}. */
final class Sessions {
  private Sessions() {}

  /** The node's output in a run of a session that was created from a model of the node. */
  static TensorData run(OrtEnvironment environment, OrtSession session, MoeNode node)
      throws OrtException {
    Map<String, OnnxTensorLike> feeds = new HashMap<>();
    try {
      for (int slot = 0; slot < node.inputs().size(); slot++) {
        if (node.isGraphInput(slot) && node.input(slot).isPresent()) {
          feeds.put(OnnxModels.inputName(slot), node.required(slot).toOnnxTensor(environment));
        }
      }
      try (OrtSession.Result result = session.run(feeds)) {
        return TensorData.of((OnnxTensor) result.get(0));
      }
    } finally {
      feeds.values().forEach(OnnxTensorLike::close);
    }
  }
}
