package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.natives.NativeLibrary;
import dev.expertbank.qmoe.device.QMoeSpecStruct;
import dev.expertbank.spi.qmoe.QMoeReading;
import dev.expertbank.spi.qmoe.QMoeSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The kernels of one device: loads a module when a plan first needs one of its kernels. Safe from
 * any thread.
 */
final class CudaKernels implements AutoCloseable {
  private static final int ATTRIBUTE_STATIC_SHARED_BYTES = 1;
  private static final int ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES = 8;

  /** Kernels that compute experts have an element type in their name, and a module for each. */
  private static final Map<String, String> MODULE_BY_PART =
      Map.of(
          "_f16_", "experts_f16",
          "_bf16_", "experts_bf16",
          "_f32_", "experts_f32");

  private static final String OTHER_MODULE = "route";

  private static final System.Logger LOG = System.getLogger(CudaKernels.class.getName());

  private final CudaContext context;
  private final Arena arena = Arena.ofShared();
  private final MemorySegment limits;
  private final Map<String, Long> modules = new HashMap<>();
  private final Map<Integer, Long> functions = new HashMap<>();
  private final Map<QMoeSpec, CudaPlans> plans = new HashMap<>();

  /** Nothing loaded yet; the context outlives the kernels. */
  CudaKernels(CudaContext context) {
    this.context = context;
    limits = CudaPlanner.limits(arena, context.info());
  }

  /** Why the kernels do not compute such nodes, for whatever number of tokens; empty if they do. */
  Optional<QMoeReading.Unsupported> unsupported(QMoeSpec spec) {
    try (Arena temporary = Arena.ofConfined()) {
      MemorySegment struct = QMoeSpecStruct.allocate(temporary, spec);
      boolean zeroPoints = CudaPlans.hasZeroPoints(spec);
      boolean planned =
          Stream.of(1, CudaPlanner.MAX_DECODE_TOKENS + 1, CudaPlanner.MAX_RUN_TOKENS)
              .allMatch(
                  tokens ->
                      CudaPlanner.plan(temporary, struct, zeroPoints, tokens, limits).isPresent());
      return planned
          ? Optional.empty()
          : Optional.of(
              new QMoeReading.Unsupported(
                  "qmoe.device",
                  refusal()
                      + " of hidden size "
                      + spec.hidden()
                      + ", inner size "
                      + spec.inter()
                      + ", "
                      + spec.experts()
                      + " experts, "
                      + spec.bits()
                      + " bits in blocks of "
                      + spec.blockSize()
                      + ", layout "
                      + spec.layout()
                      + ": use device=host"));
    }
  }

  /** The beginning of a sentence. */
  String refusal() {
    return "the CUDA kernels do not compute a node on " + context.info().label();
  }

  /** The plans of a specification, for which nothing is {@link #unsupported}. */
  synchronized CudaPlans plans(QMoeSpec spec) {
    return plans.computeIfAbsent(spec, wanted -> new CudaPlans(this, arena, wanted, limits));
  }

  /** The kernel of that number. */
  synchronized long function(int kernel) {
    Long function = functions.get(kernel);
    if (function == null) {
      function = load(CudaPlanner.kernelName(kernel));
      functions.put(kernel, function);
    }
    return function;
  }

  private long load(String kernel) {
    CudaCalls calls = context.calls();
    try (var _ = context.makeCurrentRelaxed()) {
      long function = calls.function(module(kernel), kernel);
      int staticBytes = calls.functionAttribute(function, ATTRIBUTE_STATIC_SHARED_BYTES);
      calls.setFunctionAttribute(
          function,
          ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES,
          context.info().sharedBytesPerBlock() - staticBytes);
      return function;
    }
  }

  private long module(String kernel) {
    String name =
        MODULE_BY_PART.entrySet().stream()
            .filter(entry -> kernel.contains(entry.getKey()))
            .map(Map.Entry::getValue)
            .findFirst()
            .orElse(OTHER_MODULE);
    return modules.computeIfAbsent(
        name,
        missing ->
            context.calls().loadModule(NativeLibrary.content("cuda/" + missing + ".fatbin")));
  }

  /** Nothing is launched any more. */
  @Override
  public synchronized void close() {
    try (arena;
        var _ = context.makeCurrentRelaxed()) {
      for (Map.Entry<String, Long> module : modules.entrySet()) {
        try {
          context.calls().unloadModule(module.getValue());
        } catch (CudaException e) {
          LOG.log(System.Logger.Level.WARNING, "module " + module.getKey() + " stays loaded", e);
        }
      }
      modules.clear();
    }
  }
}
