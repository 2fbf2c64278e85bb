package dev.expertbank.tests.host;

import dev.expertbank.residency.ResidencyMetrics;
import dev.expertbank.residency.ResizeOutcome;
import dev.expertbank.residency.ResizeRequest;
import dev.expertbank.spi.Availability;
import dev.expertbank.spi.BoundaryOutcome;
import dev.expertbank.spi.Claim;
import dev.expertbank.spi.CompiledNode;
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
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * A second provider, to prove that the host knows nothing of QMoE: computes float Relu. The option
 * {@code throw-in} makes one SPI method throw.
 */
public final class ReluProviderFactory implements ExecutionProviderFactory {
  enum ThrowIn {
    NOTHING,
    CREATE,
    CLAIM,
    CLAIM_ERROR,
    COMPILE,
    SESSION_CREATED,
    COMPUTE,
    BOUNDARY,
    CLOSE_NODE,
    CLOSE
  }

  static final OptionSpec<ThrowIn> THROW_IN =
      OptionSpec.choice("throw-in", ThrowIn.class, ThrowIn.NOTHING, "where to throw");

  @Override
  public String name() {
    return "JavaRelu";
  }

  @Override
  public int priority() {
    return 0;
  }

  @Override
  public Availability probe() {
    return new Availability.Available(List.of("host"));
  }

  @Override
  public List<OptionSpec<?>> options() {
    return List.of(THROW_IN);
  }

  @Override
  public ExecutionProvider create(ProviderOptions options, SessionFacts facts) {
    ThrowIn throwIn = options.get(THROW_IN);
    failIf(throwIn, ThrowIn.CREATE);
    return new ReluProvider(throwIn);
  }

  private static void failIf(ThrowIn configured, ThrowIn here) {
    if (configured == here) {
      throw new IllegalStateException("thrown on purpose in " + here);
    }
  }

  private record ReluProvider(ThrowIn throwIn) implements ExecutionProvider {
    @Override
    public MemoryDevice memoryDevice() {
      return MemoryDevice.HOST;
    }

    @Override
    public void copy(KernelContext.Tensor from, KernelContext.Tensor to, long gpuStream) {
      throw new IllegalStateException("no GPU");
    }

    @Override
    public Claim claim(GraphNode node, Supplier<Path> modelDirectory) {
      failIf(throwIn, ThrowIn.CLAIM);
      if (throwIn == ThrowIn.CLAIM_ERROR) {
        throw new StackOverflowError("thrown on purpose in " + throwIn);
      }
      return node.qualifiedType().equals("ai.onnx::Relu")
          ? new Claim.Claimed(true, List.of())
          : new Claim.NotApplicable("not a Relu");
    }

    @Override
    public CompiledNode compile(GraphNode node, Path modelDirectory) {
      failIf(throwIn, ThrowIn.COMPILE);
      return new ReluNode(throwIn);
    }

    @Override
    public void sessionCreated(SafePoints safePoints) {
      failIf(throwIn, ThrowIn.SESSION_CREATED);
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
    public BoundaryOutcome consumeRouteResidencyAtBoundary(RunBoundary boundary) {
      failIf(throwIn, ThrowIn.BOUNDARY);
      return BoundaryOutcome.notResident();
    }

    @Override
    public void close() {
      failIf(throwIn, ThrowIn.CLOSE);
    }
  }

  private record ReluNode(ThrowIn throwIn) implements CompiledNode {
    @Override
    public void compute(KernelContext context) {
      failIf(throwIn, ThrowIn.COMPUTE);
      KernelContext.Tensor input = context.input(0);
      MemorySegment from = input.data();
      MemorySegment to = context.outputLike(0, input).data();
      for (long i = 0; i < input.elementCount(); i++) {
        to.setAtIndex(
            ValueLayout.JAVA_FLOAT, i, Math.max(0, from.getAtIndex(ValueLayout.JAVA_FLOAT, i)));
      }
    }

    @Override
    public void close() {
      failIf(throwIn, ThrowIn.CLOSE_NODE);
    }
  }
}
