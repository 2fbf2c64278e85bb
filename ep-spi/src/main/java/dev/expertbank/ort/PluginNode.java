package dev.expertbank.ort;

import static dev.expertbank.ort.OrtStructField.NODE_COMPUTE;
import static dev.expertbank.ort.OrtStructField.NODE_COMPUTE_INFO_BYTES;
import static dev.expertbank.ort.OrtStructField.NODE_CREATE_STATE;
import static dev.expertbank.ort.OrtStructField.NODE_RELEASE_STATE;

import dev.expertbank.natives.Native;
import dev.expertbank.spi.CompiledNode;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandles;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * One claimed node: an {@code OrtNodeComputeInfo} that ONNX Runtime holds until it calls
 * ReleaseNodeComputeInfos. The node's number is also the state pointer of every execution.
 */
final class PluginNode {
  private static final HandleTable<PluginNode> NODES = new HandleTable<>();

  private static final Map<OrtStructField, Long> STUBS =
      Upcall.stubs(
          MethodHandles.lookup(),
          Map.of(
              NODE_CREATE_STATE, "createState",
              NODE_COMPUTE, "compute",
              NODE_RELEASE_STATE, "releaseState"));

  private final CompiledNode compiled;
  private final int[] inputIndexBySlot;
  private final @Nullable OrtGpuMemory gpuMemory;
  private final long handle;
  private final CStruct struct;

  /**
   * Takes ownership of {@code compiled}.
   *
   * @param inputIndexBySlot the fused node's input for each slot of the original node, or -1
   * @param gpuMemory the session's, where the provider wants tensors; null for the host
   */
  PluginNode(CompiledNode compiled, int[] inputIndexBySlot, @Nullable OrtGpuMemory gpuMemory) {
    this.compiled = compiled;
    this.inputIndexBySlot = inputIndexBySlot;
    this.gpuMemory = gpuMemory;
    this.handle = NODES.add(this);
    this.struct = new CStruct(NODE_COMPUTE_INFO_BYTES, handle, STUBS);
  }

  long address() {
    return struct.address();
  }

  /** The node whose structure ONNX Runtime gives back. */
  static PluginNode at(long address) {
    return NODES.get(CStruct.handle(address, NODE_COMPUTE_INFO_BYTES));
  }

  void release() {
    NODES.remove(handle);
    struct.close();
    compiled.close();
  }

  static long createState(long self, long computeContext, long state) {
    Native.view(state, Long.BYTES).set(ValueLayout.JAVA_LONG, 0, at(self).handle);
    return 0;
  }

  static long compute(long self, long state, long kernelContext) {
    PluginNode node = NODES.get(state);
    node.compiled.compute(
        OrtKernelContext.ofThread().bind(kernelContext, node.inputIndexBySlot, node.gpuMemory));
    return 0;
  }

  static void releaseState(long self, long state) {
    // The state is the node's number; the node goes with ReleaseNodeComputeInfos.
  }
}
