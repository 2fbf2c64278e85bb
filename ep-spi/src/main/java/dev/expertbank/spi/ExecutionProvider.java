package dev.expertbank.spi;

import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResizeOutcome;
import dev.expertbank.residency.ResizeRequest;
import java.nio.file.Path;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * The provider of one session. {@link #claim} and {@link #compile} are called on the thread that
 * creates the session; runs may be concurrent; {@link #consumeRouteResidencyAtBoundary} and {@link
 * #resize} are never called while a run of the session is in flight.
 */
public interface ExecutionProvider extends AutoCloseable {
  /**
   * Where this provider wants the inputs and outputs of its nodes; asked once, before any node. For
   * a GPU, ONNX Runtime's own provider of that GPU has to be in the session: it allocates them. A
   * session in which it cannot be is refused with {@code io.device}.
   */
  MemoryDevice memoryDevice();

  /**
   * Copies a tensor between the host and the GPU of {@link #memoryDevice}, and returns when the
   * copy is done. ONNX Runtime asks for it where a node on the host and a node on the GPU, of
   * whichever provider, use one tensor. Never called where {@link #memoryDevice} is the host.
   *
   * @param from not empty; was written by what the stream holds already
   * @param to of the same size
   * @param gpuStream as {@link KernelContext#gpuStream}
   */
  void copy(KernelContext.Tensor from, KernelContext.Tensor to, long gpuStream);

  /**
   * Says whether a node will be computed here; the same node always gets the same answer, and may
   * be asked about more than once.
   *
   * @param modelDirectory gives the folder that external data is relative to, until this returns; a
   *     model that cannot be claimed may have none that Java can name
   */
  Claim claim(GraphNode node, Supplier<Path> modelDirectory);

  /**
   * Prepares a node that {@link #claim} took. Nodes of a body of If, Loop or Scan can be prepared
   * before those around it are claimed.
   *
   * @param modelDirectory the folder that external data is relative to
   */
  CompiledNode compile(GraphNode node, Path modelDirectory);

  /**
   * Called once, after all nodes have been compiled and before the first run. An exception ends the
   * creation of the session.
   *
   * @param safePoints for work that has to wait until no run is in flight; usable until {@link
   *     #close}
   */
  void sessionCreated(SafePoints safePoints);

  /**
   * Called once when a top-level run has ended and its outputs exist, and no other run of the
   * session is in flight; overlapping runs are covered by one call when the last of them ends.
   * Bodies of If, Loop and Scan are part of their run and cause no call of their own. An exception
   * cannot fail the finished run: the host reports it as {@link BoundaryOutcome.Failed}.
   *
   * <p>What a run has put on a stream may still be going on, its outputs included: ONNX Runtime
   * waits for its streams after this. A provider on a GPU waits here itself for what it reads, on
   * each stream that {@link KernelContext#gpuStream} named since the boundary before.
   */
  BoundaryOutcome consumeRouteResidencyAtBoundary(RunBoundary boundary);

  /**
   * Changes the budget of fast memory. Called at a safe point only, after the boundary of the runs
   * before it.
   *
   * @throws EpException {@code residency.off} if the session has no budget that could change
   */
  ResizeOutcome resize(ResizeRequest request);

  /** How weights that are not in fast memory are reached, once the session has been created. */
  WeightReport weights();

  /** What is resident and what that has brought; empty without residency. Safe from any thread. */
  Optional<ResidencyMetrics> metrics();

  /** Called once, after every compiled node has been closed. */
  @Override
  void close();
}
