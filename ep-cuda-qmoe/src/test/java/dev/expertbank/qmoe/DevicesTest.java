package dev.expertbank.qmoe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.qmoe.QMoeOptions.Io;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.cuda.CudaDeviceInfo;
import dev.expertbank.spi.CudaPeer;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.MemoryDevice;
import dev.expertbank.spi.ProviderOptions;
import dev.expertbank.spi.SessionFacts;
import dev.expertbank.spi.qmoe.RoutingSemantics;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Where tensors are, and what follows from it. */
class DevicesTest {
  private static final CudaDeviceInfo GPU_1 =
      new CudaDeviceInfo(
          1, "H200", 9, 0, 132, 232448, 233472, 1L << 37, false, true, true, true, true, true);

  /** A session of which that is known. */
  private record Facts(CudaPeer cudaPeer) implements SessionFacts {
    @Override
    public Optional<String> configEntry(String key) {
      return Optional.empty();
    }
  }

  private static boolean tensorsOnDevice(Io io, CudaPeer peer) {
    return Devices.tensorsOnDevice(io, GPU_1, new Facts(peer));
  }

  private static QMoeOptions options(Map<String, String> text) {
    return QMoeOptions.of(ProviderOptions.parse(QMoeOptions.SPECS, text));
  }

  @Test
  void tensorsAreOnTheGpuWhereTheirAllocatorIsKnownToBe() {
    assertThat(tensorsOnDevice(Io.AUTO, new CudaPeer.Present(1))).isTrue();
    assertThat(tensorsOnDevice(Io.AUTO, new CudaPeer.Present(0))).isFalse();
    assertThat(tensorsOnDevice(Io.AUTO, new CudaPeer.Unknown())).isFalse();
    assertThat(tensorsOnDevice(Io.AUTO, new CudaPeer.Absent())).isFalse();
  }

  @Test
  void anApplicationDecidesItself() {
    assertThat(tensorsOnDevice(Io.HOST, new CudaPeer.Present(1))).isFalse();
    assertThat(tensorsOnDevice(Io.DEVICE, new CudaPeer.Unknown())).isTrue();
  }

  @Test
  void theHostHasNoTensorsOnAGpu() {
    QMoeOptions options = options(Map.of("device", "host", "io", "device"));
    assertThatThrownBy(
            () -> Devices.open(options, new Facts(new CudaPeer.Absent()), FaultPlan.none()))
        .isInstanceOfSatisfying(
            EpException.class, e -> assertThat(e.code()).isEqualTo("device.unavailable"))
        .hasMessage("io=device needs a GPU, but device is host; use io=auto or io=host");
  }

  @Test
  void routingIsThatOfTheProviderWhoseTensorsTheyAre() {
    QMoeOptions auto = options(Map.of());
    assertThat(auto.routing(MemoryDevice.HOST)).isEqualTo(RoutingSemantics.ORT_CPU);
    assertThat(auto.routing(MemoryDevice.Gpu.cuda(1))).isEqualTo(RoutingSemantics.ORT_CUDA);
    QMoeOptions cpu = options(Map.of("routing.semantics", "ort-cpu"));
    assertThat(cpu.routing(MemoryDevice.Gpu.cuda(1))).isEqualTo(RoutingSemantics.ORT_CPU);
    QMoeOptions cuda = options(Map.of("routing.semantics", "ort-cuda"));
    assertThat(cuda.routing(MemoryDevice.HOST)).isEqualTo(RoutingSemantics.ORT_CUDA);
  }
}
