package dev.expertbank.qmoe;

import dev.expertbank.qmoe.device.QMoeKernel;
import dev.expertbank.spi.CompiledNode;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.KernelContext;
import dev.expertbank.spi.KernelContext.Tensor;
import dev.expertbank.spi.qmoe.QMoeInput;
import dev.expertbank.spi.qmoe.QMoeSpec;

/** A claimed node: checks the shapes that are only known at run time, then runs its kernel. */
final class QMoeNode implements CompiledNode {
  private final QMoeProvider provider;
  private final QMoeSpec spec;
  private final QMoeKernel kernel;
  private final int layer;

  QMoeNode(QMoeProvider provider, QMoeSpec spec, QMoeKernel kernel, int layer) {
    this.provider = provider;
    this.spec = spec;
    this.kernel = kernel;
    this.layer = layer;
  }

  @Override
  public void compute(KernelContext context) {
    provider.checkWeights();
    Tensor input = context.input(QMoeInput.INPUT.slot());
    checkLastDim(QMoeInput.INPUT, input, spec.hidden());
    long tokens = input.elementCount() / spec.hidden();
    Tensor router = routerInput(context, QMoeInput.ROUTER_PROBS, tokens);
    Tensor routerWeights =
        spec.routerWeights() ? routerInput(context, QMoeInput.ROUTER_WEIGHTS, tokens) : null;
    Tensor output = context.outputLike(0, input);
    if (tokens > 0) {
      kernel.run(context, input, router, routerWeights, output, tokens);
    }
    provider.computed(layer);
  }

  private Tensor routerInput(KernelContext context, QMoeInput slot, long tokens) {
    Tensor tensor = context.input(slot.slot());
    checkLastDim(slot, tensor, spec.experts());
    if (tensor.elementCount() != Math.multiplyExact(tokens, spec.experts())) {
      throw new EpException(
          "qmoe.shape",
          slot.schemaName()
              + " has "
              + tensor.elementCount() / spec.experts()
              + " rows, input has "
              + tokens);
    }
    return tensor;
  }

  private static void checkLastDim(QMoeInput slot, Tensor tensor, int expected) {
    int rank = tensor.rank();
    if (rank < 2 || tensor.dim(rank - 1) != expected) {
      throw new EpException(
          "qmoe.shape",
          slot.schemaName()
              + " must have at least 2 dimensions, the last of them "
              + expected
              + "; its rank is "
              + rank
              + (rank == 0 ? "" : " and its last dimension " + tensor.dim(rank - 1)));
    }
  }

  @Override
  public void close() {
    kernel.close();
  }
}
