package dev.expertbank.qmoe;

import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.spi.CudaPeer;
import dev.expertbank.spi.ProviderOptions;
import dev.expertbank.spi.SessionFacts;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Devices that stay open for as long as the process lives: a GPU's context then does not end with
 * every session, which would take most of the tests' time and hide what a session leaves behind.
 */
public final class OpenDevice {
  private static final Map<String, Device> OPEN = new ConcurrentHashMap<>();

  private OpenDevice() {}

  /** A device by its name, which nobody closes. */
  public static Device named(String name) {
    return OPEN.computeIfAbsent(name, OpenDevice::open);
  }

  private static Device open(String name) {
    Map<String, String> options = Map.of("device", name, "io", "host", "pin.limit", "0");
    return Devices.open(
        QMoeOptions.of(ProviderOptions.parse(QMoeOptions.SPECS, options)),
        new NoFacts(),
        FaultPlan.none());
  }

  /** There is no session. */
  private static final class NoFacts implements SessionFacts {
    @Override
    public Optional<String> configEntry(String key) {
      return Optional.empty();
    }

    @Override
    public CudaPeer cudaPeer() {
      return new CudaPeer.Absent();
    }
  }
}
