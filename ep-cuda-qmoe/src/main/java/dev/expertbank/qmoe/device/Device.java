package dev.expertbank.qmoe.device;

import dev.expertbank.memory.Tier;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.KernelContext;
import dev.expertbank.spi.KernelContext.Tensor;
import dev.expertbank.spi.MemoryDevice;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.QMoeTensor;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Optional;

/**
 * Where the nodes of one session are computed, and the memory that experts can be copied to. Safe
 * from any thread.
 */
public interface Device extends AutoCloseable {
  /** The name under which everyone in the process knows the device. */
  String name();

  /** Which tier of the memory governor slots are charged to. */
  Tier tier();

  /** Why the device does not compute such nodes; empty if it does. */
  Optional<QMoeReading.Unsupported> unsupported(QMoeSpec spec);

  /** Where the inputs and outputs of nodes should be. They can be on the host all the same. */
  MemoryDevice tensorMemory();

  /**
   * Copies a tensor between the host and {@link #tensorMemory}, and returns when that is done.
   *
   * @param to of the same size
   * @param gpuStream as {@link KernelContext#gpuStream}
   */
  void copy(Tensor from, Tensor to, long gpuStream);

  /**
   * Zeroed memory of the host that kernels can read, at the same address, until the device is
   * closed.
   */
  MemorySegment hostMemory(long bytes);

  /**
   * Makes the device's kernels able to read memory of the host in place, as far as that goes, until
   * the device is closed.
   *
   * @param memory outlives the device; nothing that others use is in its first and last page
   */
  InPlace openInPlace(MemorySegment memory);

  /** The address of an expert's tensor is a multiple of it where kernels read it in place. */
  int alignment(QMoeTensor tensor);

  /**
   * A kernel for one node.
   *
   * @param layer the node's number among the layers of the session
   * @param experts the layer's; stay the bank's
   */
  QMoeKernel prepare(QMoeSpec spec, LayerExperts experts, int layer);

  /** Whether {@link #openInPlace} takes a while for much memory; then any thread may call it. */
  boolean opensInPlaceSlowly();

  /** Whether {@link #openPrefillStream} makes prefill faster, as a rule. */
  boolean gainsByPrefillStreams();

  /**
   * From now on, prefill streams cold experts through two slots, each copied while the one before
   * is computed on. A run that finds the slots in use by another reads its experts in place.
   *
   * @param slotBytes a multiple of {@link #slotGranularity}, enough for every expert
   * @return to be released before the device is closed
   * @throws EpException {@code device.memory} if there is no memory for the slots
   */
  PrefillStream openPrefillStream(long slotBytes);

  /** The size of slots is a multiple of it. */
  long slotGranularity();

  /** What could be committed now, in bytes, and what of it to leave to others. */
  FreeMemory freeMemory();

  /**
   * Takes memory from the system.
   *
   * @param bytes a multiple of {@link #slotGranularity}
   * @return to be released once
   * @throws EpException {@code device.memory} if there is none
   */
  Slot commitSlot(long bytes);

  /**
   * Gives memory back to the system.
   *
   * @throws EpException {@code device.memory} if that failed; the slot is as before
   */
  void releaseSlot(Slot slot);

  /**
   * Starts to copy into a slot and does not wait.
   *
   * @throws EpException {@code device.copy} if nothing was submitted
   */
  SlotCopy startCopy(Slot slot, List<CopyPiece> pieces);

  /** Tells that no run of the session is under way; what one has launched may be. */
  void runsEnded();

  /** Waits until the runs that have returned have also ended on the device. */
  void awaitRuns();

  /** Whether the launches of a run are being captured into a graph. */
  boolean capturing();

  /** Waits until no copy writes to a slot; false if the device gave up waiting. */
  boolean awaitCopies();

  /**
   * The record of routes of the session, disarmed; made once.
   *
   * @param experts of each layer
   */
  RouteCounters openRouteCounters(List<Integer> experts);

  /** From the next run on, the sink gets every route. */
  void recordRoutes(RouteSink sink);

  /** Called once, after every kernel of the device has been closed and every slot released. */
  @Override
  void close();

  /**
   * What can be had now.
   *
   * @param source where the number is from, in words
   */
  record FreeMemory(long bytes, long reserveBytes, String source) {}

  /**
   * How much of some memory kernels can read where it is.
   *
   * @param address where they find the first byte
   * @param bytes from the start on
   * @param reason why it is not more; empty if it is everything
   */
  record InPlace(long address, long bytes, String reason) {}
}
