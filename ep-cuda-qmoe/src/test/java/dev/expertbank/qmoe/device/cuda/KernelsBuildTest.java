package dev.expertbank.qmoe.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Properties;
import org.junit.jupiter.api.Test;

class KernelsBuildTest {
  @Test
  void aBuildWithoutNvccSaysWhy() {
    assertThat(build("absent", "built without CUDA kernels: nvcc was not on PATH", "").absent())
        .contains("built without CUDA kernels: nvcc was not on PATH");
    assertThat(KernelsBuild.of(new Properties()).absent()).contains("built without CUDA kernels");
  }

  @Test
  void aDriverLoadsKernelsOfItsOwnMajorVersionAndOfOlderOnes() {
    KernelsBuild build = build("present", "", "13.2");
    assertThat(build.absent()).isEmpty();
    assertThat(build.driverProblem(13000)).isEmpty();
    assertThat(build.driverProblem(14010)).isEmpty();
    assertThat(build.driverProblem(12080))
        .contains(
            "the NVIDIA driver supports CUDA 12.8, but the kernels were compiled by CUDA 13.2:"
                + " update the driver or build the kernels with an older nvcc");
  }

  @Test
  void kernelsThatDoNotNameTheirToolkitAreTried() {
    assertThat(build("present", "", "").driverProblem(12000)).isEmpty();
  }

  private static KernelsBuild build(String kernels, String reason, String toolkit) {
    Properties properties = new Properties();
    properties.setProperty("cuda.kernels", kernels);
    properties.setProperty("cuda.reason", reason);
    properties.setProperty("cuda.toolkit", toolkit);
    return KernelsBuild.of(properties);
  }
}
