package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.model.OnnxModelReader;
import dev.expertbank.model.QMoeNode;
import dev.expertbank.model.SyntheticModel;
import dev.expertbank.model.SyntheticModelWriter;
import dev.expertbank.natives.Native;
import dev.expertbank.qmoe.bank.ExpertBank;
import dev.expertbank.qmoe.bank.WeightsAccess;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.QMoeKernel;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.KernelContext;
import dev.expertbank.spi.KernelContext.Tensor;
import dev.expertbank.spi.MemoryDevice;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.RoutingSemantics;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.SplittableRandom;

/** A node on a GPU of its own session, and tensors for it, without ONNX Runtime. */
final class CudaNode implements AutoCloseable {
  static final int HIDDEN = 64;
  static final int EXPERTS = 8;
  static final int MAX_TOKENS = 70;

  private static final long INPUT_BYTES = (long) MAX_TOKENS * HIDDEN * Float.BYTES;
  private static final long ROUTER_BYTES = (long) MAX_TOKENS * EXPERTS * Float.BYTES;

  private final MemoryDevice gpu;
  private final CudaDevice device;
  private final ExpertBank bank;
  private final QMoeKernel kernel;
  private final Arena arena = Arena.ofShared();
  private final MemorySegment input = arena.allocate(INPUT_BYTES, 64);
  private final MemorySegment router = arena.allocate(ROUTER_BYTES, 64);
  private final MemorySegment output = arena.allocate(INPUT_BYTES, 64);
  private final long deviceInput;
  private final long deviceRouter;
  private final long deviceOutput;

  /** Where the tensors of a run are. */
  record Places(boolean input, boolean router, boolean output) {
    static final Places DEVICE = new Places(true, true, true);
    static final Places HOST = new Places(false, false, false);
  }

  /** A model of one layer, for {@link #CudaNode}. */
  static Path writeModel(Path directory) {
    SyntheticModel model =
        SyntheticModel.builder()
            .geometry(HIDDEN, 96, EXPERTS, 2)
            .quantization(4, 32)
            .types(ElementType.FLOAT, ElementType.FLOAT)
            .layers(1)
            .seed(11)
            .build();
    return SyntheticModelWriter.write(
            model, directory.resolve("one.onnx"), false, SyntheticModelWriter.Progress.NONE)
        .model();
  }

  /**
   * Opens the node of a model on a GPU.
   *
   * @param pinLimit as the option
   */
  CudaNode(Path model, OptionalLong pinLimit, boolean tensorsOnDevice, FaultPlan faults) {
    CudaDeviceInfo info = CudaProbe.run().usable().getFirst();
    gpu = MemoryDevice.Gpu.cuda(info.number());
    device = new CudaDevice(info, pinLimit, tensorsOnDevice, faults);
    bank = new ExpertBank(WeightsAccess.MAP, device);
    QMoeNode node = QMoeNode.of(OnnxModelReader.read(model), RoutingSemantics.ORT_CPU).getFirst();
    QMoeSpec spec = ((QMoeReading.Supported) node.reading()).spec();
    kernel =
        device.prepare(
            spec, bank.openLayer(node.node(), spec, Objects.requireNonNull(model.getParent())), 0);
    SplittableRandom random = new SplittableRandom(5);
    fill(input, random, 1);
    fill(router, random, 3);
    CudaMemoryCalls memory = device.context().memory();
    CudaCalls calls = device.context().calls();
    try (var _ = device.context().makeCurrent()) {
      deviceInput = memory.allocate(INPUT_BYTES);
      deviceRouter = memory.allocate(ROUTER_BYTES);
      deviceOutput = memory.allocate(INPUT_BYTES);
      long stream = calls.createStream();
      calls.copyToDevice(deviceInput, input.address(), INPUT_BYTES, stream);
      calls.copyToDevice(deviceRouter, router.address(), ROUTER_BYTES, stream);
      calls.synchronizeStream(stream);
      calls.destroyStream(stream);
    }
  }

  private static void fill(MemorySegment values, SplittableRandom random, double bound) {
    for (long i = 0; i < values.byteSize() / Float.BYTES; i++) {
      values.setAtIndex(ValueLayout.JAVA_FLOAT, i, (float) random.nextDouble(-bound, bound));
    }
  }

  CudaDevice device() {
    return device;
  }

  ExpertBank bank() {
    return bank;
  }

  /** Runs the node; what it launches may not be done when the call returns. */
  void launch(long stream, int tokens, Places places) {
    kernel.run(
        new Context(stream),
        tensor(places.input(), deviceInput, input, tokens, HIDDEN),
        tensor(places.router(), deviceRouter, router, tokens, EXPERTS),
        null,
        tensor(places.output(), deviceOutput, output, tokens, HIDDEN),
        tokens);
  }

  private Tensor tensor(boolean onDevice, long address, MemorySegment host, int tokens, int width) {
    long bytes = (long) tokens * width * Float.BYTES;
    return onDevice
        ? new Values(gpu, Native.view(address, bytes), tokens, width)
        : new Values(MemoryDevice.HOST, host.asSlice(0, bytes), tokens, width);
  }

  /** Copies the input to where the output is on the device, and from there to the host. */
  byte[] copyInputThere(long stream) {
    Tensor there = tensor(true, deviceOutput, output, MAX_TOKENS, HIDDEN);
    device.copy(tensor(false, 0, input, MAX_TOKENS, HIDDEN), there, stream);
    device.copy(there, tensor(false, 0, output, MAX_TOKENS, HIDDEN), stream);
    return output.toArray(ValueLayout.JAVA_BYTE);
  }

  byte[] input() {
    return input.toArray(ValueLayout.JAVA_BYTE);
  }

  /** Forgets the output on the device. */
  void clear(long stream) {
    device.context().calls().setBytes(deviceOutput, (byte) 0xEE, INPUT_BYTES, stream);
  }

  /** The output, once the stream has done everything. */
  byte[] output(long stream, int tokens, Places places) {
    long bytes = (long) tokens * HIDDEN * Float.BYTES;
    if (!places.output()) {
      return output.asSlice(0, bytes).toArray(ValueLayout.JAVA_BYTE);
    }
    CudaCalls calls = device.context().calls();
    try (Arena copies = Arena.ofConfined();
        var _ = device.context().makeCurrent()) {
      MemorySegment copy = copies.allocate(bytes);
      calls.copyToHost(copy.address(), deviceOutput, bytes, stream);
      calls.synchronizeStream(stream);
      return copy.toArray(ValueLayout.JAVA_BYTE);
    }
  }

  /** The output of a run. */
  byte[] run(long stream, int tokens, Places places) {
    launch(stream, tokens, places);
    return output(stream, tokens, places);
  }

  @Override
  public void close() {
    try (var _ = device.context().makeCurrent()) {
      device.context().memory().free(deviceInput);
      device.context().memory().free(deviceRouter);
      device.context().memory().free(deviceOutput);
    }
    kernel.close();
    device.close();
    bank.close();
    arena.close();
  }

  /** A tensor of rows of floats. */
  private record Values(MemoryDevice memory, MemorySegment data, int rows, int width)
      implements Tensor {
    @Override
    public ElementType elementType() {
      return ElementType.FLOAT;
    }

    @Override
    public int rank() {
      return 2;
    }

    @Override
    public long dim(int axis) {
      return axis == 0 ? rows : width;
    }

    @Override
    public long elementCount() {
      return (long) rows * width;
    }
  }

  /** ONNX Runtime's part in a run. */
  private record Context(long gpuStream) implements KernelContext {
    @Override
    public Tensor input(int slot) {
      throw new UnsupportedOperationException();
    }

    @Override
    public Tensor outputLike(int index, Tensor like) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void parallelFor(MemorySegment function, long total, MemorySegment userData) {
      throw new UnsupportedOperationException();
    }
  }
}
