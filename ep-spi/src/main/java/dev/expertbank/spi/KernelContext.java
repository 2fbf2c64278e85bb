package dev.expertbank.spi;

import java.lang.foreign.MemorySegment;

/**
 * The inputs and outputs of one execution of a node. Valid on the calling thread until {@link
 * CompiledNode#compute} returns.
 */
public interface KernelContext {
  /**
   * The tensor in that operator slot of the original node, whatever ONNX Runtime did to the slots
   * of the fused node.
   *
   * @throws EpException if the slot is empty, or its constant was dropped
   */
  Tensor input(int slot);

  /**
   * Allocates the output with the shape of {@code like}.
   *
   * @return its memory, sized for the node's output type
   */
  Tensor outputLike(int index, Tensor like);

  /**
   * Runs {@code function(userData, i)} for each i in [0, total) on the session's intra-op threads,
   * and returns when all are done.
   *
   * @param function a native {@code void (*)(void *userData, size_t i)}
   */
  void parallelFor(MemorySegment function, long total, MemorySegment userData);

  /**
   * The stream on which ONNX Runtime's provider of the GPU runs the nodes around this one, as the
   * GPU's driver knows it; 0 if there is none. Work that is put on it follows everything that
   * writes the node's inputs and precedes everything that reads its outputs. It is the same for all
   * nodes of a run; runs that overlap have streams of their own.
   */
  long gpuStream();

  /** A tensor in memory of ONNX Runtime. */
  interface Tensor {
    ElementType elementType();

    int rank();

    long dim(int axis);

    long elementCount();

    /**
     * Where the elements are. ONNX Runtime does not keep every promise to put them where {@link
     * ExecutionProvider#memoryDevice} wants them, so a provider on a GPU asks; a provider on the
     * host is always told the host.
     */
    MemoryDevice memory();

    /**
     * The elements; read-only by contract for inputs. In a GPU's memory only the address means
     * anything: access from the CPU ends the process.
     */
    MemorySegment data();
  }
}
