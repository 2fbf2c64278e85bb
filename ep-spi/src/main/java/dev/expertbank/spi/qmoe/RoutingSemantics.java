package dev.expertbank.spi.qmoe;

/** Whose routing rules apply, where ONNX Runtime's own QMoE kernels differ. */
public enum RoutingSemantics {
  /**
   * Softmax over the k selected logits; {@code normalize_routing_weights} matters only with {@code
   * router_weights}; of equal logits the higher expert index wins.
   */
  ORT_CPU,
  /**
   * Softmax over all logits; the selected probabilities are divided by their sum only if {@code
   * normalize_routing_weights} is 1; of equal logits the lower expert index wins.
   */
  ORT_CUDA
}
