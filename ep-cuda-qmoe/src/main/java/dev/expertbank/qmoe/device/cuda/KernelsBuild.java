package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.natives.NativeLibrary;
import dev.expertbank.spi.EpException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Optional;
import java.util.Properties;

/**
 * What the kernels jar says about the CUDA kernels in it.
 *
 * @param absent why there are none; empty if there are
 * @param toolkit the CUDA that compiled them, such as {@code 13.0}; empty if there are none
 */
record KernelsBuild(Optional<String> absent, String toolkit) {
  private static final int VERSION_MAJOR = 1000;
  private static final int VERSION_MINOR = 10;

  /** Reads it from the class path. */
  static KernelsBuild read() {
    try {
      String resource = "dev/expertbank/native/" + NativeLibrary.platform() + "/build.properties";
      try (InputStream in = KernelsBuild.class.getClassLoader().getResourceAsStream(resource)) {
        if (in == null) {
          return absent(
              "the class path has no "
                  + resource
                  + ": add the dev.expertbank:kernels jar that was built on this platform");
        }
        Properties properties = new Properties();
        properties.load(in);
        return of(properties);
      } catch (IOException e) {
        return absent("cannot read " + resource + ": " + e);
      }
    } catch (EpException e) {
      return absent(String.valueOf(e.getMessage()));
    }
  }

  static KernelsBuild of(Properties properties) {
    return properties.getProperty("cuda.kernels", "").equals("present")
        ? new KernelsBuild(Optional.empty(), properties.getProperty("cuda.toolkit", ""))
        : absent(properties.getProperty("cuda.reason", "built without CUDA kernels"));
  }

  private static KernelsBuild absent(String reason) {
    return new KernelsBuild(Optional.of(reason), "");
  }

  /**
   * Why a driver cannot load the kernels. A driver loads what any toolkit of its own major version
   * has compiled, and of every older one.
   *
   * @param driverVersion the newest CUDA that it knows, such as 12080 for 12.8
   */
  Optional<String> driverProblem(int driverVersion) {
    int major = toolkit.isEmpty() ? 0 : Integer.parseInt(toolkit.split("\\.", 2)[0]);
    return driverVersion / VERSION_MAJOR >= major
        ? Optional.empty()
        : Optional.of(
            "the NVIDIA driver supports CUDA "
                + driverVersion / VERSION_MAJOR
                + "."
                + driverVersion % VERSION_MAJOR / VERSION_MINOR
                + ", but the kernels were compiled by CUDA "
                + toolkit
                + ": update the driver or build the kernels with an older nvcc");
  }
}
