package dev.expertbank.qmoe;

import dev.expertbank.qmoe.bank.WeightsAccess;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.OptionSpec;
import dev.expertbank.spi.ProviderOptions;
import dev.expertbank.spi.qmoe.RoutingSemantics;
import java.util.List;

/**
 * The options of one session, immutable.
 *
 * @param routing whose rules apply where ONNX Runtime's CPU and CUDA kernels route differently
 * @param weightsAccess how experts are read from external data
 */
public record QMoeOptions(RoutingSemantics routing, WeightsAccess weightsAccess) {
  static final String HOST_DEVICE = "host";

  /** {@link RoutingSemantics}, or the default that depends on the device. */
  private enum Routing {
    AUTO,
    ORT_CPU,
    ORT_CUDA
  }

  private static final OptionSpec<String> DEVICE =
      new OptionSpec<>(
          "device",
          "auto, host or cuda:<number>",
          "auto",
          "what computes: auto takes the best device there is",
          QMoeOptions::checkDeviceName);

  private static final OptionSpec<Routing> ROUTING =
      OptionSpec.choice(
          "routing.semantics",
          Routing.class,
          Routing.AUTO,
          "whose rules apply where ONNX Runtime's CPU and CUDA kernels route differently: auto "
              + "means the provider that the node would otherwise have run on");

  private static final OptionSpec<WeightsAccess> WEIGHTS_ACCESS =
      OptionSpec.choice(
          "weights.access",
          WeightsAccess.class,
          WeightsAccess.MAP,
          "map reads experts in place from the mapped file; copy reads them into memory when the "
              + "session is created, for files that others may change meanwhile");

  static final List<OptionSpec<?>> SPECS = List.of(DEVICE, ROUTING, WEIGHTS_ACCESS);

  static QMoeOptions of(ProviderOptions options) {
    String device = options.get(DEVICE);
    if (device.startsWith("cuda:")) {
      throw new EpException(
          "device.unavailable",
          "device '"
              + device
              + "' is not available: this version has no CUDA device; available devices are "
              + HOST_DEVICE);
    }
    RoutingSemantics routing =
        options.get(ROUTING) == Routing.ORT_CUDA
            ? RoutingSemantics.ORT_CUDA
            : RoutingSemantics.ORT_CPU;
    return new QMoeOptions(routing, options.get(WEIGHTS_ACCESS));
  }

  private static String checkDeviceName(String text) {
    if (text.equals("auto") || text.equals(HOST_DEVICE) || text.matches("cuda:\\d{1,3}")) {
      return text;
    }
    throw new IllegalArgumentException(text);
  }
}
