package dev.expertbank.tests.host;

import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResizeOutcome;
import dev.expertbank.residency.ResizeRequest;
import dev.expertbank.spi.Availability;
import dev.expertbank.spi.BoundaryOutcome;
import dev.expertbank.spi.Claim;
import dev.expertbank.spi.CompiledNode;
import dev.expertbank.spi.CudaPeer;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExecutionProvider;
import dev.expertbank.spi.ExecutionProviderFactory;
import dev.expertbank.spi.GraphNode;
import dev.expertbank.spi.KernelContext;
import dev.expertbank.spi.MemoryDevice;
import dev.expertbank.spi.OptionSpec;
import dev.expertbank.spi.ProviderOptions;
import dev.expertbank.spi.RunBoundary;
import dev.expertbank.spi.SafePoints;
import dev.expertbank.spi.SessionFacts;
import dev.expertbank.spi.WeightReport;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * A provider that wants its tensors in a GPU's memory, and computes float Relu. The "GPU" of these
 * tests is host memory, so it computes where the tensors are.
 */
public final class GpuReluProviderFactory implements ExecutionProviderFactory {
  static final OptionSpec<Integer> GPU =
      new OptionSpec<>("gpu", "a number", "0", "which GPU", Integer::valueOf);

  /** What the providers were called for, in order. */
  static final List<String> SEEN = Collections.synchronizedList(new ArrayList<>());

  /** What was known of the CUDA provider when the last provider was created. */
  static volatile CudaPeer cudaPeer = new CudaPeer.Absent();

  @Override
  public String name() {
    return "GpuRelu";
  }

  @Override
  public int priority() {
    return 0;
  }

  @Override
  public Availability probe() {
    return new Availability.Available(List.of("gpu"));
  }

  @Override
  public List<OptionSpec<?>> options() {
    return List.of(GPU);
  }

  @Override
  public ExecutionProvider create(ProviderOptions options, SessionFacts facts) {
    cudaPeer = facts.cudaPeer();
    return new GpuReluProvider(MemoryDevice.Gpu.cuda(options.get(GPU)));
  }

  private static String text(MemoryDevice memory) {
    return memory instanceof MemoryDevice.Gpu gpu ? "gpu" + gpu.number() : "host";
  }

  private record GpuReluProvider(MemoryDevice memoryDevice) implements ExecutionProvider {
    @Override
    public Claim claim(GraphNode node, Supplier<Path> modelDirectory) {
      return node.operatorType().equals("Relu")
          ? new Claim.Claimed(true, List.of())
          : new Claim.NotApplicable("not a Relu");
    }

    @Override
    public CompiledNode compile(GraphNode node, Path modelDirectory) {
      return new GpuReluNode();
    }

    @Override
    public void copy(KernelContext.Tensor from, KernelContext.Tensor to, long gpuStream) {
      SEEN.add("copy " + text(from.memory()) + " " + text(to.memory()));
      to.data().copyFrom(from.data());
    }

    @Override
    public void sessionCreated(SafePoints safePoints) {}

    @Override
    public BoundaryOutcome consumeRouteResidencyAtBoundary(RunBoundary boundary) {
      return BoundaryOutcome.notResident();
    }

    @Override
    public ResizeOutcome resize(ResizeRequest request) {
      throw new EpException("residency.off", "Relu has no memory to resize");
    }

    @Override
    public WeightReport weights() {
      return WeightReport.NONE;
    }

    @Override
    public Optional<ResidencyMetrics> metrics() {
      return Optional.empty();
    }

    @Override
    public void close() {
      SEEN.add("close");
    }
  }

  private record GpuReluNode() implements CompiledNode {
    @Override
    public void compute(KernelContext context) {
      KernelContext.Tensor input = context.input(0);
      KernelContext.Tensor output = context.outputLike(0, input);
      SEEN.add(
          "relu "
              + text(input.memory())
              + " "
              + text(output.memory())
              + " stream "
              + context.gpuStream());
      MemorySegment from = input.data();
      MemorySegment to = output.data();
      for (long i = 0; i < input.elementCount(); i++) {
        to.setAtIndex(
            ValueLayout.JAVA_FLOAT, i, Math.max(0, from.getAtIndex(ValueLayout.JAVA_FLOAT, i)));
      }
    }

    @Override
    public void close() {}
  }
}
