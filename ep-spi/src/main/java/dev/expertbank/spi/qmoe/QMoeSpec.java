package dev.expertbank.spi.qmoe;

import dev.expertbank.spi.ElementType;
import java.util.List;

/**
 * What a QMoE node computes, checked and with every default filled in. Holds no names, so nodes of
 * equal geometry have equal specs.
 *
 * @param hidden H, the width of a token
 * @param inter I, the width between fc1 and fc2
 * @param topK experts per token, at most {@code experts}
 * @param bits of one weight: 2, 4 or 8
 * @param blockSize weights along K that share a scale and zero point, a power of two; 0 when every
 *     row has a single one, and then zero points are packed along the rows
 * @param layout of the bytes of all weights
 * @param swigluFusion how fc1 holds the two halves of a SwiGLU: 1 interleaved (row 2i gate, row
 *     2i+1 linear), 2 one half after the other (gate first); 0 when fc3 holds the linear half, and
 *     for every other activation
 * @param fc3 whether the expert computes {@code activation(fc1) · fc3} rather than {@code
 *     activation(fc1)}
 * @param ioType of input, router_probs, router_weights, biases and output
 * @param scaleType of all scales
 * @param routerWeights whether mixing weights are an input of their own
 * @param alpha the sigmoid's gain; read by SwiGLU only, as are {@code beta} and {@code limit}
 * @param beta added to the linear half
 * @param limit clamps the gate from above and the linear half from both sides; +Infinity for none
 * @param tensors every expert tensor that the node has, in slot order
 */
public record QMoeSpec(
    int hidden,
    int inter,
    int experts,
    int topK,
    int bits,
    int blockSize,
    WeightLayout layout,
    Activation activation,
    int swigluFusion,
    boolean fc3,
    ElementType ioType,
    ElementType scaleType,
    boolean normalizeRoutingWeights,
    boolean routerWeights,
    float alpha,
    float beta,
    float limit,
    RoutingSemantics routing,
    List<QMoeTensor> tensors) {
  public QMoeSpec {
    tensors = List.copyOf(tensors);
  }

  /** N, the output rows of a layer. */
  public int rows(Fc fc) {
    return switch (fc) {
      case FC1 -> swigluFusion == 0 ? inter : 2 * inter;
      case FC2 -> hidden;
      case FC3 -> inter;
    };
  }

  /** K, the weights of one row of a layer. */
  public int reduction(Fc fc) {
    return fc == Fc.FC2 ? inter : hidden;
  }

  /** Weights in one byte. */
  public int pack() {
    return 8 / bits;
  }

  /** Scales of one row of a layer; the last block may be shorter than the others. */
  public int blocks(Fc fc) {
    return blockSize == 0 ? 1 : Math.ceilDiv(reduction(fc), blockSize);
  }

  /** Bytes of one row of packed weights, which are next to each other in plain weights only. */
  public int packedRowBytes(Fc fc) {
    return reduction(fc) / pack();
  }

  /** Whether the node has that expert tensor. */
  public boolean has(QMoeInput input) {
    return tensors.stream().anyMatch(tensor -> tensor.input() == input);
  }

  /** Bytes of one expert in that input; 0 when the node does not have it. */
  public long bytesPerExpert(QMoeInput input) {
    return tensors.stream()
        .filter(tensor -> tensor.input() == input)
        .mapToLong(QMoeTensor::bytesPerExpert)
        .sum();
  }

  /** Bytes of one expert in all its tensors. */
  public long bytesPerExpert() {
    return tensors.stream().mapToLong(QMoeTensor::bytesPerExpert).reduce(0, Math::addExact);
  }
}
