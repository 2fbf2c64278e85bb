package dev.expertbank.qmoe.device;

import dev.expertbank.spi.KernelContext;
import dev.expertbank.spi.KernelContext.Tensor;
import org.jspecify.annotations.Nullable;

/** One node on a device. Runs may be concurrent. */
public interface QMoeKernel extends AutoCloseable {
  /**
   * Computes the node. The shapes have been checked.
   *
   * @param input {@code [tokens, hidden]}, possibly with more leading dimensions
   * @param router logits {@code [tokens, experts]}
   * @param routerWeights {@code [tokens, experts]}, or null when the node has none
   * @param output of input's shape
   * @param tokens at least 1
   */
  void run(
      KernelContext context,
      Tensor input,
      Tensor router,
      @Nullable Tensor routerWeights,
      Tensor output,
      long tokens);

  @Override
  void close();
}
