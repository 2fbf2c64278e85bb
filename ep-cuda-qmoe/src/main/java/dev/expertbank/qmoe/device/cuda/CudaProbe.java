package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.spi.EpException;
import java.util.ArrayList;
import java.util.List;

/**
 * Which devices there are and everything that keeps them from being used. Creates no context.
 *
 * @param devices in the driver's order; none if it could not be asked
 * @param problems what concerns all devices, each one sentence
 */
public record CudaProbe(List<CudaDeviceInfo> devices, List<String> problems) {
  public CudaProbe {
    devices = List.copyOf(devices);
    problems = List.copyOf(problems);
  }

  /** Looks. Never throws: what is missing is a problem. */
  public static CudaProbe run() {
    KernelsBuild kernels = KernelsBuild.read();
    List<String> libraries = new ArrayList<>(CudaDriver.problems());
    CudaSetup.missing().ifPresent(libraries::add);
    if (libraries.isEmpty()) {
      CudaSetup.problem().ifPresent(libraries::add);
    }
    List<String> problems = new ArrayList<>();
    kernels.absent().ifPresent(problems::add);
    problems.addAll(libraries);
    return libraries.isEmpty() ? devices(kernels, problems) : new CudaProbe(List.of(), problems);
  }

  private static CudaProbe devices(KernelsBuild kernels, List<String> problems) {
    try {
      int driverVersion = CudaSetup.initialise();
      kernels.driverProblem(driverVersion).ifPresent(problems::add);
      List<CudaDeviceInfo> devices = CudaSetup.devices();
      if (devices.isEmpty()) {
        problems.add("the NVIDIA driver lists no device");
      }
      return new CudaProbe(devices, problems);
    } catch (EpException e) {
      problems.add(String.valueOf(e.getMessage()));
      return new CudaProbe(List.of(), problems);
    }
  }

  /** The devices that can be used. */
  public List<CudaDeviceInfo> usable() {
    return problems.isEmpty()
        ? devices.stream().filter(device -> device.problems().isEmpty()).toList()
        : List.of();
  }

  /** Why one device cannot be used; empty if it can. */
  public List<String> problemsOf(int number) {
    List<String> all = new ArrayList<>(problems);
    if (number < devices.size()) {
      all.addAll(devices.get(number).problems());
    } else if (!devices.isEmpty()) {
      all.add(
          "there is no cuda:"
              + number
              + ": the NVIDIA driver lists "
              + devices.size()
              + (devices.size() == 1 ? " device" : " devices"));
    }
    return all;
  }

  /** Everything that keeps devices from being used. */
  public List<String> allProblems() {
    List<String> all = new ArrayList<>(problems);
    devices.forEach(device -> all.addAll(device.problems()));
    return all;
  }
}
