package dev.expertbank.residency;

/**
 * Why a layer is left as it is at a boundary.
 *
 * @param layer which one
 * @param detail one sentence
 */
public record LayerDegradation(int layer, Reason reason, String detail) {
  /** The kinds of reasons. */
  public enum Reason {
    /** Its experts cannot be moved one by one. */
    NON_PAGEABLE,
    /** The policy named an expert that the layer does not have. */
    EXPERT_RANGE,
    /** The policy named an expert twice. */
    DUPLICATE,
    /** The policy named a layer that the model does not have, so that nothing it says counts. */
    LAYER_RANGE,
    /** The policy threw. */
    POLICY_FAILED
  }
}
