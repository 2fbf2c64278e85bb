package dev.expertbank.spi;

/** A claimed node that is ready to run. */
public interface CompiledNode extends AutoCloseable {
  /**
   * Computes the node's outputs. May be called by several threads at once, each with a context of
   * its own.
   */
  void compute(KernelContext context);

  @Override
  void close();
}
