package dev.expertbank.qmoe;

import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.cuda.CudaDevice;
import dev.expertbank.qmoe.device.cuda.CudaDeviceInfo;
import dev.expertbank.qmoe.device.cuda.CudaProbe;
import dev.expertbank.qmoe.device.host.HostDevice;
import dev.expertbank.spi.EpException;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

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
   * @param faults what fails, in tests
   * @throws EpException {@code device.unavailable} with every reason, if it cannot be used
   */
  static Device open(QMoeOptions options, FaultPlan faults) {
    return switch (options.device()) {
      case HOST -> new HostDevice(faults);
      case AUTO -> openBest(CudaProbe.run(), options.pinLimit(), faults);
      default -> openCuda(CudaProbe.run(), options, faults);
    };
  }

  private static Device openBest(CudaProbe probe, OptionalLong pinLimit, FaultPlan faults) {
    List<CudaDeviceInfo> usable = probe.usable();
    if (usable.isEmpty()) {
      LOG.log(
          System.Logger.Level.INFO,
          () -> "device " + HOST + ", because no GPU can be used: " + reasons(probe.allProblems()));
      return new HostDevice(faults);
    }
    CudaDeviceInfo first = usable.getFirst();
    LOG.log(
        System.Logger.Level.INFO,
        () -> "device " + first.description() + ": the first GPU that can be used");
    return new CudaDevice(first, pinLimit, faults);
  }

  private static Device openCuda(CudaProbe probe, QMoeOptions options, FaultPlan faults) {
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
    return new CudaDevice(probe.devices().get(number), options.pinLimit(), faults);
  }
}
