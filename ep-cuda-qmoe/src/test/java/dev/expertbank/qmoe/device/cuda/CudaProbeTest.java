package dev.expertbank.qmoe.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.util.List;
import org.junit.jupiter.api.Test;

class CudaProbeTest {
  private static final CudaDeviceInfo H200 = device(0, 9, 0);

  @Test
  void withoutADriverTheReasonIsTheLoaders() {
    CudaProbe probe = CudaProbe.run();
    assumeFalse(CudaDriver.problems().isEmpty(), "there is a driver");
    assertThat(probe.devices()).isEmpty();
    assertThat(probe.usable()).isEmpty();
    assertThat(probe.problemsOf(0))
        .anyMatch(
            problem ->
                problem.startsWith("the NVIDIA driver is not installed: libcuda.so.1: cannot open"))
        .isEqualTo(probe.allProblems());
  }

  @Test
  void everyProblemOfADeviceIsNamed() {
    CudaDeviceInfo old =
        new CudaDeviceInfo(
            1, "Old", 7, 0, 80, 98304, 98304, 1L << 34, true, false, false, true, true, true);
    assertThat(H200.problems()).isEmpty();
    assertThat(device(0, 7, 5).problems()).isEmpty();
    assertThat(device(0, 12, 0).problems()).isEmpty();
    assertThat(old.problems())
        .containsExactly(
            "cuda:1 (Old) has compute capability 7.0, the kernels need 7.5 or newer",
            "cuda:1 (Old) is in compute mode PROHIBITED: nvidia-smi -c 0 ends that",
            "cuda:1 (Old) does not share one address space with the host",
            "cuda:1 (Old) has no virtual memory management");
  }

  @Test
  void aDeviceIsUsableIfNothingIsWrongWithItOrWithAll() {
    CudaDeviceInfo old = device(1, 6, 1);
    CudaProbe probe = new CudaProbe(List.of(H200, old), List.of());
    assertThat(probe.usable()).containsExactly(H200);
    assertThat(probe.problemsOf(0)).isEmpty();
    assertThat(probe.problemsOf(1)).isEqualTo(old.problems()).hasSize(1);
    assertThat(probe.problemsOf(2))
        .containsExactly("there is no cuda:2: the NVIDIA driver lists 2 devices");
    assertThat(probe.allProblems()).isEqualTo(old.problems());

    CudaProbe withoutKernels = new CudaProbe(List.of(H200), List.of("no kernels"));
    assertThat(withoutKernels.usable()).isEmpty();
    assertThat(withoutKernels.problemsOf(0)).containsExactly("no kernels");
    assertThat(withoutKernels.problemsOf(1))
        .containsExactly("no kernels", "there is no cuda:1: the NVIDIA driver lists 1 device");
  }

  private static CudaDeviceInfo device(int number, int major, int minor) {
    return new CudaDeviceInfo(
        number, "Any", major, minor, 132, 232448, 233472, 1L << 37, false, true, true, true, true,
        true);
  }
}
