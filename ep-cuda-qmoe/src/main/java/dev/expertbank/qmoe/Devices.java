package dev.expertbank.qmoe;

import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.cuda.CudaDevice;
import dev.expertbank.qmoe.device.cuda.CudaDeviceInfo;
import dev.expertbank.qmoe.device.cuda.CudaProbe;
import dev.expertbank.qmoe.device.host.HostDevice;
import dev.expertbank.spi.CudaPeer;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.SessionFacts;
import java.util.ArrayList;
import java.util.List;

/** The devices of this machine, by the names that option {@code device} takes. */
final class Devices {
  /** The best there is. */
  static final String AUTO = "auto";

  static final String HOST = "host";

  private static final String CUDA = "cuda:";

  private static final System.Logger LOG = System.getLogger(Devices.class.getName());

  private Devices() {}

  /** Names of the devices that can be used, best first. Creates no context. */
  static List<String> available() {
    CudaProbe probe = CudaProbe.run();
    LOG.log(
        System.Logger.Level.DEBUG,
        () ->
            "available devices are "
                + String.join(", ", available(probe))
                + (probe.allProblems().isEmpty() ? "" : "; " + reasons(probe.allProblems())));
    return available(probe);
  }

  private static List<String> available(CudaProbe probe) {
    List<String> names = new ArrayList<>();
    probe.usable().forEach(device -> names.add(device.id()));
    names.add(HOST);
    return names;
  }

  private static String reasons(List<String> problems) {
    return String.join("; ", problems);
  }

  /**
   * Opens the device that the options name.
   *
   * @param facts about the session
   * @param faults what fails, in tests
   * @throws EpException {@code device.unavailable} with every reason, if it cannot be used
   */
  static Device open(QMoeOptions options, SessionFacts facts, FaultPlan faults) {
    return switch (options.device()) {
      case HOST -> openHost(options, "device is " + HOST, faults);
      case AUTO -> openBest(CudaProbe.run(), options, facts, faults);
      default -> openNamed(CudaProbe.run(), options, facts, faults);
    };
  }

  private static Device openHost(QMoeOptions options, String reason, FaultPlan faults) {
    if (options.io() == QMoeOptions.Io.DEVICE) {
      throw new EpException(
          "device.unavailable",
          "io=device needs a GPU, but " + reason + "; use io=auto or io=host");
    }
    return new HostDevice(faults);
  }

  private static Device openBest(
      CudaProbe probe, QMoeOptions options, SessionFacts facts, FaultPlan faults) {
    List<CudaDeviceInfo> usable = probe.usable();
    if (usable.isEmpty()) {
      String reason = "no GPU can be used: " + reasons(probe.allProblems());
      LOG.log(System.Logger.Level.INFO, () -> "device " + HOST + ", because " + reason);
      return openHost(options, reason, faults);
    }
    CudaDeviceInfo first = usable.getFirst();
    LOG.log(
        System.Logger.Level.INFO,
        () -> "device " + first.description() + ": the first GPU that can be used");
    return openCuda(first, options, facts, faults);
  }

  private static Device openNamed(
      CudaProbe probe, QMoeOptions options, SessionFacts facts, FaultPlan faults) {
    String name = options.device();
    int number = Integer.parseInt(name.substring(CUDA.length()));
    List<String> problems = probe.problemsOf(number);
    if (!problems.isEmpty()) {
      throw new EpException(
          "device.unavailable",
          "device '"
              + name
              + "' is not available: "
              + reasons(problems)
              + "; available devices are "
              + String.join(", ", available(probe)));
    }
    return openCuda(probe.devices().get(number), options, facts, faults);
  }

  private static Device openCuda(
      CudaDeviceInfo info, QMoeOptions options, SessionFacts facts, FaultPlan faults) {
    return new CudaDevice(
        info, options.pinLimit(), tensorsOnDevice(options.io(), info, facts), faults);
  }

  /** Whether inputs and outputs are to be in a GPU's memory. */
  static boolean tensorsOnDevice(QMoeOptions.Io io, CudaDeviceInfo info, SessionFacts facts) {
    return switch (io) {
      case HOST -> false;
      case DEVICE -> true;
      case AUTO -> isPeerOf(info, facts.cudaPeer());
    };
  }

  /** Whether ONNX Runtime's CUDA provider is known to be in the session, on the same GPU. */
  private static boolean isPeerOf(CudaDeviceInfo info, CudaPeer peer) {
    return switch (peer) {
      case CudaPeer.Absent _ -> false;
      case CudaPeer.Present present when present.gpu() == info.number() -> true;
      case CudaPeer.Present present -> {
        LOG.log(
            System.Logger.Level.INFO,
            () ->
                "io host, because ONNX Runtime's CUDA provider is on GPU "
                    + present.gpu()
                    + ": with device=cuda:"
                    + present.gpu()
                    + " tensors would stay there");
        yield false;
      }
      case CudaPeer.Unknown _ -> {
        LOG.log(
            System.Logger.Level.INFO,
            () ->
                "io host, because nothing tells whether ONNX Runtime's CUDA provider is in this"
                    + " session: if it is, set io=device, and tensors stay on "
                    + info.id());
        yield false;
      }
    };
  }
}
