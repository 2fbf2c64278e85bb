package dev.expertbank.spi;

/** What is known of ONNX Runtime's CUDA provider in one session. */
public sealed interface CudaPeer {
  /**
   * It is in the session: it was added by its {@code OrtEpDevice}, which leaves the number of the
   * GPU in the session's configuration.
   *
   * @param gpu as CUDA counts
   */
  record Present(int gpu) implements CudaPeer {}

  /** It is in no session: its library is not loaded in this process. */
  record Absent() implements CudaPeer {}

  /**
   * Its library is loaded in this process. Whether for this session is not known: {@code
   * SessionOptions.addCUDA} leaves nothing in a session's options that a provider may read.
   */
  record Unknown() implements CudaPeer {}
}
