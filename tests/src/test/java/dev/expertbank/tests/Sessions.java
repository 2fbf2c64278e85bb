package dev.expertbank.tests;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OnnxTensorLike;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.api.Registration;
import dev.expertbank.spi.Claim;
import dev.expertbank.spi.PlacementReport;
import java.util.HashMap;
import java.util.Map;

/** Runs one-node models of {@link OnnxModels}. */
final class Sessions {
  static final OrtEnvironment ENVIRONMENT = OrtEnvironment.getEnvironment();

  private Sessions() {}

  /** Creates the session of one of the forms that a model can have. */
  @FunctionalInterface
  interface Opener {
    OrtSession open(OrtSession.SessionOptions options) throws OrtException;
  }

  /**
   * One run in a session with the QMoE provider on the test device.
   *
   * @param claim the provider's answer to the model's only node
   */
  record ProviderRun(TensorData output, Claim claim) {}

  /** Runs a session that has the QMoE provider; what it does not claim falls to the CPU. */
  static ProviderRun runWithProvider(
      MoeNode node, Routing routing, Map<String, String> sessionConfig, Opener opener)
      throws OrtException {
    try (var options = options(sessionConfig);
        var registration = register(options, routing);
        var session = opener.open(options)) {
      TensorData output = run(session, node);
      return new ProviderRun(output, onlyClaim(registration.sessions().getLast().placement()));
    }
  }

  /** Creates such a session, from a model with every weight inside it, and closes it. */
  static void openWithProvider(MoeNode node, Routing routing, Map<String, String> sessionConfig)
      throws OrtException {
    try (var options = options(sessionConfig);
        var _ = register(options, routing);
        var _ = ENVIRONMENT.createSession(OnnxModels.inline(node), options)) {
      // Creating it is all.
    }
  }

  private static OrtSession.SessionOptions options(Map<String, String> sessionConfig)
      throws OrtException {
    var options = new OrtSession.SessionOptions();
    for (Map.Entry<String, String> entry : sessionConfig.entrySet()) {
      options.addConfigEntry(entry.getKey(), entry.getValue());
    }
    return options;
  }

  private static Registration register(OrtSession.SessionOptions options, Routing routing)
      throws OrtException {
    String semantics = routing == Routing.ORT_CUDA ? "ort-cuda" : "ort-cpu";
    return ExecutionProviders.require("CudaQMoE")
        .register(ENVIRONMENT, options, TestDevice.options(Map.of("routing.semantics", semantics)));
  }

  /** The node's output in a run of a session that was created from a model of the node. */
  static TensorData run(OrtSession session, MoeNode node) throws OrtException {
    Map<String, OnnxTensorLike> feeds = new HashMap<>();
    try {
      for (int slot = 0; slot < node.inputs().size(); slot++) {
        if (node.isGraphInput(slot) && node.input(slot).isPresent()) {
          feeds.put(OnnxModels.inputName(slot), node.required(slot).toOnnxTensor(ENVIRONMENT));
        }
      }
      try (OrtSession.Result result = session.run(feeds)) {
        return TensorData.of((OnnxTensor) result.get(0));
      }
    } finally {
      feeds.values().forEach(OnnxTensorLike::close);
    }
  }

  private static Claim onlyClaim(PlacementReport placement) {
    if (placement.nodes().size() != 1) {
      throw new AssertionError("not one node in " + placement);
    }
    return placement.nodes().getFirst().claim();
  }
}
