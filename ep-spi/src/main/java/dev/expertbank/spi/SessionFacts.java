package dev.expertbank.spi;

import java.util.Optional;

/** The session that a provider is created for, as far as ONNX Runtime shows it. */
public interface SessionFacts {
  /**
   * An entry of the session's configuration. Options of a provider that was added by its {@code
   * OrtEpDevice} are entries too, named {@code ep.<provider>.<key>}.
   */
  Optional<String> configEntry(String key);

  /**
   * What is known of ONNX Runtime's CUDA provider in this session. Reads a file of the operating
   * system: ask only where it matters.
   */
  CudaPeer cudaPeer();
}
