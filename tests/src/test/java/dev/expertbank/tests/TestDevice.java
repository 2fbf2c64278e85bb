package dev.expertbank.tests;

import dev.expertbank.memory.Tier;
import dev.expertbank.qmoe.OpenDevice;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Assumptions;

/**
 * The device on which the tests' sessions compute: what system property {@code
 * expertbank.test.device} says, as option {@code device} does, such as {@code cuda:0}; by default
 * {@code host}.
 */
public final class TestDevice {
  private static final String HOST = "host";

  private TestDevice() {}

  public static String name() {
    return System.getProperty("expertbank.test.device", HOST);
  }

  public static boolean isHost() {
    return name().equals(HOST);
  }

  /** Where its slots are. */
  public static Tier tier() {
    return isHost() ? Tier.HOST : Tier.DEVICE;
  }

  /** The number of the GPU that it is. */
  public static int gpuNumber() {
    return Integer.parseInt(name().substring("cuda:".length()));
  }

  /** What its slots take for an expert of that many packed bytes. */
  public static long slotBytes(long expertBytes) {
    long granularity = OpenDevice.named(name()).slotGranularity();
    return Math.ceilDiv(expertBytes, granularity) * granularity;
  }

  /** Provider options that ask for the device. */
  public static Map<String, String> options() {
    return options(Map.of());
  }

  /** These provider options, which ask for the device unless they name another. */
  public static Map<String, String> options(Map<String, String> others) {
    OpenDevice.named(name());
    Map<String, String> options = new HashMap<>(others);
    options.putIfAbsent("device", name());
    return options;
  }

  /** Whether it computes with weights in the layout of models exported for CUDA. */
  public static boolean supportsSm80() {
    return !isHost();
  }

  /** Skips the test unless {@link #supportsSm80}, and prints why. */
  public static void assumeSm80() {
    if (!supportsSm80()) {
      String reason =
          "device "
              + name()
              + " does not read weights in the layout of CUDA exports; run with"
              + " -Dexpertbank.test.device=cuda:0";
      System.out.println("skipped: " + reason);
      Assumptions.abort(reason);
    }
  }
}
