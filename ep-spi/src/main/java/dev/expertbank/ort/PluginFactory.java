package dev.expertbank.ort;

import static dev.expertbank.ort.OrtStructField.FACTORY_BYTES;
import static dev.expertbank.ort.OrtStructField.FACTORY_CREATE_DATA_TRANSFER;
import static dev.expertbank.ort.OrtStructField.FACTORY_CREATE_EP;
import static dev.expertbank.ort.OrtStructField.FACTORY_GET_NAME;
import static dev.expertbank.ort.OrtStructField.FACTORY_GET_SUPPORTED_DEVICES;
import static dev.expertbank.ort.OrtStructField.FACTORY_GET_VENDOR;
import static dev.expertbank.ort.OrtStructField.FACTORY_GET_VENDOR_ID;
import static dev.expertbank.ort.OrtStructField.FACTORY_GET_VERSION;
import static dev.expertbank.ort.OrtStructField.FACTORY_RELEASE_EP;

import dev.expertbank.natives.Native;
import dev.expertbank.spi.EpException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandles;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;

/**
 * The {@code OrtEpFactory} of one provider. It lives as long as the process: ONNX Runtime may ask
 * for it more often than it gives it back.
 */
final class PluginFactory {
  private static final HandleTable<PluginFactory> FACTORIES = new HandleTable<>();

  private static final Map<OrtStructField, Long> STUBS =
      Upcall.stubs(
          MethodHandles.lookup(),
          Map.of(
              FACTORY_GET_NAME, "getName",
              FACTORY_GET_VENDOR, "getVendor",
              FACTORY_GET_VENDOR_ID, "getVendorId",
              FACTORY_GET_VERSION, "getVersion",
              FACTORY_GET_SUPPORTED_DEVICES, "getSupportedDevices",
              FACTORY_CREATE_EP, "createEp",
              FACTORY_RELEASE_EP, "releaseEp",
              FACTORY_CREATE_DATA_TRANSFER, "createDataTransfer"));

  /** Strings that ONNX Runtime reads through our getters. */
  private static final MemorySegment VENDOR = Arena.global().allocateFrom("expertbank");

  private static final MemorySegment VERSION = Arena.global().allocateFrom("0.1.0");

  private static final int HARDWARE_DEVICE_CPU = 0;

  private final PluginLibrary library;
  private final String epName;
  private final MemorySegment epNameText;
  private final CStruct struct;

  /** An {@code OrtKernelRegistry}, once a session needs it; 0 before. */
  private long copyKernels;

  PluginFactory(PluginLibrary library) {
    this.library = library;
    this.epName = library.epName();
    this.epNameText = Arena.global().allocateFrom(epName);
    this.struct = new CStruct(FACTORY_BYTES, FACTORIES.add(this), STUBS);
  }

  long address() {
    return struct.address();
  }

  String epName() {
    return epName;
  }

  long epNameAddress() {
    return epNameText.address();
  }

  synchronized long copyKernels() {
    if (copyKernels == 0) {
      copyKernels = CopyKernel.newRegistry(epNameText.address());
    }
    return copyKernels;
  }

  private static PluginFactory at(long address) {
    return FACTORIES.get(CStruct.handle(address, FACTORY_BYTES));
  }

  // Upcalls: package-private for Upcall, which guards them all.

  static long getName(long self) {
    return at(self).epNameText.address();
  }

  static long getVendor(long self) {
    return VENDOR.address();
  }

  static int getVendorId(long self) {
    return 0;
  }

  static long getVersion(long self) {
    return VERSION.address();
  }

  static long getSupportedDevices(
      long self, long devices, long deviceCount, long epDevices, long maxEpDevices, long out) {
    MemorySegment outCount = Native.view(out, Long.BYTES);
    outCount.set(ValueLayout.JAVA_LONG, 0, 0);
    MemorySegment hardware = Native.view(devices, Long.BYTES * deviceCount);
    for (long i = 0; i < deviceCount; i++) {
      long device = hardware.getAtIndex(ValueLayout.JAVA_LONG, i);
      if (hardwareType(device) == HARDWARE_DEVICE_CPU && maxEpDevices > 0) {
        // One device, bound to the CPU, whatever the provider computes on: ONNX Runtime's list of
        // GPUs is not CUDA's, so providers do their own probing.
        createEpDevice(self, device, epDevices);
        outCount.set(ValueLayout.JAVA_LONG, 0, 1);
        return 0;
      }
    }
    return 0;
  }

  private static int hardwareType(long device) {
    try {
      return (int) OrtFunction.HARDWARE_DEVICE_TYPE.handle().invokeExact(device);
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  private static void createEpDevice(long factory, long hardwareDevice, long epDevice) {
    OrtFunction function = OrtFunction.CREATE_EP_DEVICE;
    try {
      OrtStatus.check(
          (long) function.handle().invokeExact(factory, hardwareDevice, 0L, 0L, epDevice),
          function);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  static long createEp(
      long self,
      long devices,
      long metadata,
      long deviceCount,
      long sessionOptions,
      long logger,
      long out) {
    PluginFactory factory = at(self);
    Map<String, String> config = sessionConfig(sessionOptions);
    if ("1".equals(config.get("ep.context_enable"))) {
      throw new EpException(
          "options.ep-context",
          factory.epName + " cannot write EPContext models: remove ep.context_enable");
    }
    String prefix = "ep." + factory.epName.toLowerCase(Locale.ROOT) + ".";
    Map<String, String> options = new HashMap<>();
    config.forEach(
        (key, value) -> {
          if (key.startsWith(prefix)) {
            options.put(key.substring(prefix.length()), value);
          }
        });
    PluginSession session =
        factory.library.createSession(factory, options, new OrtSessionFacts(config));
    Native.view(out, Long.BYTES).set(ValueLayout.JAVA_LONG, 0, session.address());
    return 0;
  }

  private static Map<String, String> sessionConfig(long sessionOptions) {
    Map<String, String> config = new HashMap<>();
    try (OrtCalls calls = new OrtCalls();
        Arena arena = Arena.ofConfined()) {
      long pairs = calls.pointer(OrtFunction.GET_SESSION_OPTIONS_CONFIG_ENTRIES, sessionOptions);
      try {
        MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG, 3);
        long base = out.address();
        OrtFunction.GET_KEY_VALUE_PAIRS.handle().invokeExact(pairs, base, base + 8, base + 16);
        long count = out.getAtIndex(ValueLayout.JAVA_LONG, 2);
        if (count > 0) {
          MemorySegment keys = Native.view(out.getAtIndex(ValueLayout.JAVA_LONG, 0), 8 * count);
          MemorySegment values = Native.view(out.getAtIndex(ValueLayout.JAVA_LONG, 1), 8 * count);
          for (long i = 0; i < count; i++) {
            config.put(
                Native.string(keys.getAtIndex(ValueLayout.JAVA_LONG, i)),
                Native.string(values.getAtIndex(ValueLayout.JAVA_LONG, i)));
          }
        }
      } finally {
        OrtCalls.release(OrtFunction.RELEASE_KEY_VALUE_PAIRS, pairs);
      }
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
    return config;
  }

  static void releaseEp(long self, long ep) {
    PluginSession session = PluginSession.at(ep);
    at(self).library.sessionClosed(session);
    session.release();
  }

  static long createDataTransfer(long self, long out) {
    Native.view(out, Long.BYTES).set(ValueLayout.JAVA_LONG, 0, 0L);
    return 0;
  }
}
