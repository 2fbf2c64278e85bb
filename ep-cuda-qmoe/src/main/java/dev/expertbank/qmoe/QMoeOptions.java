package dev.expertbank.qmoe;

import dev.expertbank.qmoe.bank.WeightsAccess;
import dev.expertbank.qmoe.boundary.MemoryBudget;
import dev.expertbank.qmoe.boundary.PinOptions;
import dev.expertbank.qmoe.boundary.PrefillStreaming;
import dev.expertbank.qmoe.boundary.ResidencyOptions;
import dev.expertbank.residency.ResidencyPolicies;
import dev.expertbank.residency.policy.AdaptivePolicy;
import dev.expertbank.spi.ByteSize;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.MemoryDevice;
import dev.expertbank.spi.OptionSpec;
import dev.expertbank.spi.ProviderOptions;
import dev.expertbank.spi.qmoe.RoutingSemantics;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.Stream;

/**
 * The options of one session, immutable.
 *
 * @param device {@code auto}, {@code host} or {@code cuda:<number>}
 * @param io where inputs and outputs of nodes are
 * @param routing whose rules apply where ONNX Runtime's CPU and CUDA kernels route differently
 * @param weightsAccess how experts are read from external data
 * @param pinLimit what memory of the host may be page-locked for a GPU, in bytes; empty for what is
 *     free less a reserve
 * @param residency what is kept in fast memory
 * @param recordRoutes where the routes of the session are written
 */
public record QMoeOptions(
    String device,
    Io io,
    Routing routing,
    WeightsAccess weightsAccess,
    OptionalLong pinLimit,
    ResidencyOptions residency,
    Optional<Path> recordRoutes) {
  /** Where the inputs and outputs of nodes are. */
  enum Io {
    /** On the GPU if ONNX Runtime's CUDA provider is known to be in the session. */
    AUTO,
    HOST,
    /** On the GPU that computes, next to ONNX Runtime's CUDA provider. */
    DEVICE
  }

  /** {@link RoutingSemantics}, or the default that depends on where tensors are. */
  enum Routing {
    AUTO,
    ORT_CPU,
    ORT_CUDA
  }

  private static final OptionSpec<String> DEVICE =
      new OptionSpec<>(
          "device",
          "auto, host or cuda:<number>",
          Devices.AUTO,
          "what computes: auto takes the first GPU that can be used, else host",
          QMoeOptions::checkDeviceName);

  private static final OptionSpec<Io> IO =
      OptionSpec.choice(
          "io",
          Io.class,
          Io.AUTO,
          "where inputs and outputs are: device leaves them on the GPU, for which ONNX Runtime's "
              + "CUDA provider has to be in the session; host copies them; auto is device if that "
              + "provider was added by its OrtEpDevice, else host");

  private static final OptionSpec<Routing> ROUTING =
      OptionSpec.choice(
          "routing.semantics",
          Routing.class,
          Routing.AUTO,
          "whose rules apply where ONNX Runtime's CPU and CUDA kernels route differently: auto "
              + "means the provider that the node would otherwise have run on, CUDA's with tensors "
              + "on the GPU and else the CPU's");

  private static final OptionSpec<WeightsAccess> WEIGHTS_ACCESS =
      OptionSpec.choice(
          "weights.access",
          WeightsAccess.class,
          WeightsAccess.MAP,
          "map reads experts in place from the mapped file; copy reads them into memory when the "
              + "session is created, for files that others may change meanwhile");

  private static final OptionSpec<OptionalLong> PIN_LIMIT =
      new OptionSpec<>(
          "pin.limit",
          "auto or " + ByteSize.VALID,
          "auto",
          "memory of the host that may be page-locked, so that a GPU reads experts where they are: "
              + "auto is what is free less a reserve; the others are copied before each use",
          text ->
              text.equals("auto") ? OptionalLong.empty() : OptionalLong.of(ByteSize.parse(text)));

  private static final OptionSpec<MemoryBudget> MEMORY_BUDGET =
      new OptionSpec<>(
          "memory.budget",
          "off, auto or " + ByteSize.VALID,
          "off",
          "fast memory for experts: off reads every expert in place, auto takes what is free",
          MemoryBudget::parse);

  private static final OptionSpec<String> POLICY =
      OptionSpec.choice(
          "residency.policy",
          ResidencyPolicies.names(),
          AdaptivePolicy.NAME,
          "what chooses the experts that are kept in fast memory");

  private static final OptionSpec<Long> BYTE_CAP =
      new OptionSpec<>(
          "residency.byte-cap",
          ByteSize.VALID,
          "256MiB",
          "what the copies that start after one run may read together; the end of the next run "
              + "waits for them",
          ByteSize::parse);

  private static final OptionSpec<Optional<Path>> LOAD_PROFILE =
      file(
          "residency.profile.load",
          "a profile of earlier sessions, from which residency starts instead of from nothing");

  private static final OptionSpec<Optional<Path>> SAVE_PROFILE =
      file(
          "residency.profile.save",
          "where the profile of this session is written when it is closed");

  private static final OptionSpec<PrefillStreaming> PREFILL_STREAMING =
      OptionSpec.choice(
          "prefill.streaming",
          PrefillStreaming.class,
          PrefillStreaming.AUTO,
          "on streams the cold experts of prefill through two slots beside the budget, each copied "
              + "while the one before is computed on; off reads them in place; auto is on for a "
              + "GPU with a memory.budget that leaves room for the slots, else off");

  private static final OptionSpec<Optional<Path>> RECORD_ROUTES =
      file(
          "routes.record",
          "where the routes of this session are written, for the simulator; with or without a "
              + "memory.budget");

  static final List<OptionSpec<?>> SPECS =
      Stream.concat(
              Stream.of(
                  DEVICE,
                  IO,
                  ROUTING,
                  WEIGHTS_ACCESS,
                  PIN_LIMIT,
                  MEMORY_BUDGET,
                  POLICY,
                  BYTE_CAP,
                  LOAD_PROFILE,
                  SAVE_PROFILE,
                  PREFILL_STREAMING,
                  RECORD_ROUTES),
              PinOptions.SPECS.stream())
          .toList();

  private static OptionSpec<Optional<Path>> file(String key, String description) {
    return new OptionSpec<>(
        key,
        "the name of a file",
        "",
        description,
        text -> text.isEmpty() ? Optional.empty() : Optional.of(Path.of(text)));
  }

  static QMoeOptions of(ProviderOptions options) {
    ResidencyOptions residency =
        new ResidencyOptions(
            options.get(MEMORY_BUDGET),
            options.get(POLICY),
            options.get(BYTE_CAP),
            options.get(LOAD_PROFILE),
            options.get(SAVE_PROFILE),
            options.get(PREFILL_STREAMING),
            PinOptions.of(options));
    checkResidency(residency, options.get(WEIGHTS_ACCESS));
    return new QMoeOptions(
        options.get(DEVICE),
        options.get(IO),
        options.get(ROUTING),
        options.get(WEIGHTS_ACCESS),
        options.get(PIN_LIMIT),
        residency,
        options.get(RECORD_ROUTES));
  }

  /**
   * Whose routing rules apply.
   *
   * @param tensors where they are
   */
  RoutingSemantics routing(MemoryDevice tensors) {
    return switch (routing) {
      case ORT_CPU -> RoutingSemantics.ORT_CPU;
      case ORT_CUDA -> RoutingSemantics.ORT_CUDA;
      case AUTO ->
          switch (tensors) {
            case MemoryDevice.Host _ -> RoutingSemantics.ORT_CPU;
            case MemoryDevice.Gpu _ -> RoutingSemantics.ORT_CUDA;
          };
    };
  }

  private static void checkResidency(ResidencyOptions residency, WeightsAccess access) {
    boolean off = residency.budget() instanceof MemoryBudget.Off;
    if (!off && access == WeightsAccess.COPY) {
      throw new EpException(
          "options.conflict",
          "memory.budget and weights.access=copy exclude each other: copy has every expert in "
              + "memory already; use weights.access=map or memory.budget=off");
    }
    if (off && residency.prefillStreaming() == PrefillStreaming.ON) {
      throw new EpException(
          "options.conflict", "prefill.streaming needs a memory.budget: it is off");
    }
    if (off && (residency.loadProfile().isPresent() || residency.saveProfile().isPresent())) {
      throw new EpException(
          "options.conflict",
          "residency.profile.load and residency.profile.save need a memory.budget: it is off");
    }
  }

  private static String checkDeviceName(String text) {
    if (text.equals(Devices.AUTO) || text.equals(Devices.HOST) || text.matches("cuda:\\d{1,3}")) {
      return text;
    }
    throw new IllegalArgumentException(text);
  }
}
