package dev.expertbank.qmoe.device.cuda;

import java.util.List;

/** What benchmarks in other packages ask of a device. */
public final class CudaDevices {
  private CudaDevices() {}

  /**
   * A device that can be used.
   *
   * @param name such as {@code cuda:0}
   * @throws IllegalStateException with every reason why it cannot
   */
  static CudaDeviceInfo named(String name) {
    int number = Integer.parseInt(name.substring(name.indexOf(':') + 1));
    CudaProbe probe = CudaProbe.run();
    List<String> problems = probe.problemsOf(number);
    if (!problems.isEmpty()) {
      throw new IllegalStateException(name + ": " + String.join("; ", problems));
    }
    return probe.devices().get(number);
  }

  /** What the driver says is free on the whole device, in bytes. */
  public static long freeBytes(String name) {
    try (CudaContext context = new CudaContext(named(name));
        var _ = context.makeCurrent()) {
      return context.memory().freeBytes();
    }
  }
}
