package dev.expertbank.spi;

import java.util.List;

/**
 * The service that {@link java.util.ServiceLoader} finds. Implementations have a public constructor
 * without parameters that touches no native library, and no static initialiser that does.
 */
public interface ExecutionProviderFactory {
  /**
   * The provider's name, letters and digits only. ONNX Runtime sees it with {@code
   * ExecutionProvider} appended.
   */
  String name();

  /** Among available providers of the same name, the highest wins. */
  int priority();

  /** Cheap, creates no context, never throws: what is missing is a reason. */
  Availability probe();

  /** Every option that {@link #create} understands; the host refuses all others. */
  List<OptionSpec<?>> options();

  /**
   * One provider for one session; the session closes it.
   *
   * @param facts about that session
   * @throws EpException if an option cannot be honoured
   */
  ExecutionProvider create(ProviderOptions options, SessionFacts facts);
}
