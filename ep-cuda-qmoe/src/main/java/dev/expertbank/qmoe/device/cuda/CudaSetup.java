package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.spi.EpException;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import jcuda.CudaException;
import jcuda.JCudaVersion;
import jcuda.LibUtils;
import jcuda.driver.CUcomputemode;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdevice_attribute;
import jcuda.driver.JCudaDriver;

/**
 * What JCuda is asked: which devices there are, and for the primary context of one. The one class
 * that knows JCuda. Nothing but {@link #missing} and {@link #problem} may be called before both
 * have been found empty.
 */
final class CudaSetup {
  private static final int NAME_BYTES = 256;

  private CudaSetup() {}

  /** Initialised by the first question, not before: it loads JCuda's native library. */
  private static final class Library {
    static final Optional<String> PROBLEM = load();

    private static Optional<String> load() {
      try {
        place();
        JCudaDriver.setExceptionsEnabled(true);
        return Optional.empty();
      } catch (IOException | LinkageError | CudaException e) {
        return Optional.of("JCuda's native library cannot be loaded: " + cause(e));
      }
    }

    /**
     * Writes JCuda's library to where JCuda looks for it. JCuda itself would load any file of that
     * name which it finds in the folder of temporary files, and everyone can put one there; a file
     * of another user cannot be replaced and is an error.
     */
    private static void place() throws IOException {
      Path directory = Path.of(System.getProperty("java.io.tmpdir"));
      String name = fileName();
      Path temporary = Files.createTempFile(directory, name, ".part");
      try (InputStream library = library().orElseThrow().openStream()) {
        Files.copy(library, temporary, StandardCopyOption.REPLACE_EXISTING);
        Files.move(temporary, directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
      } catch (FileSystemException e) {
        throw new IOException(
            e.getMessage()
                + ": it may belong to another user; set -Djava.io.tmpdir=<a folder of your own>",
            e);
      } finally {
        Files.deleteIfExists(temporary);
      }
    }

    /** JCuda's message is a page with two stack traces; the last of their causes is the reason. */
    private static String cause(Throwable e) {
      String cause = UnsatisfiedLinkError.class.getName() + ": ";
      return String.valueOf(e.getMessage())
          .lines()
          .filter(line -> line.startsWith(cause))
          .map(line -> line.substring(cause.length()))
          .reduce((_, last) -> last)
          .orElse(e.toString());
    }
  }

  private static String fileName() {
    return LibUtils.createLibraryFileName(
        LibUtils.createPlatformLibraryName("JCudaDriver-" + JCudaVersion.get()));
  }

  private static Optional<URL> library() {
    // Through the loader, not the class: on the module path the resource is in another module.
    return Optional.ofNullable(CudaSetup.class.getClassLoader().getResource("lib/" + fileName()));
  }

  /**
   * What of JCuda is not on the class path, in one sentence; empty if all is. Loads nothing native.
   */
  static Optional<String> missing() {
    return library().isPresent()
        ? Optional.empty()
        : Optional.of(
            "the class path has no lib/"
                + fileName()
                + ": add org.jcuda:jcuda-natives with the classifier of this platform");
  }

  /**
   * Why JCuda cannot be used; empty if it can. Asked only where nothing is {@link #missing} and the
   * driver's library is there.
   */
  static Optional<String> problem() {
    return Library.PROBLEM;
  }

  /**
   * Makes the driver look for devices.
   *
   * @return the newest CUDA that the driver knows, such as 12080 for 12.8
   * @throws EpException {@code device.cuda} if it finds none or cannot look
   */
  static int initialise() {
    int[] version = new int[1];
    ask(
        "the NVIDIA driver cannot be started (is there a GPU, and does CUDA_VISIBLE_DEVICES show"
            + " it?)",
        () -> {
          JCudaDriver.cuInit(0);
          JCudaDriver.cuDriverGetVersion(version);
        });
    return version[0];
  }

  /**
   * Every device. Creates no context.
   *
   * @throws EpException {@code device.cuda} if the driver does not answer
   */
  static List<CudaDeviceInfo> devices() {
    List<CudaDeviceInfo> devices = new ArrayList<>();
    ask(
        "the NVIDIA driver cannot tell its devices",
        () -> {
          int[] count = new int[1];
          JCudaDriver.cuDeviceGetCount(count);
          for (int number = 0; number < count[0]; number++) {
            devices.add(device(number));
          }
        });
    return devices;
  }

  private static void ask(String failure, Runnable question) {
    try {
      question.run();
    } catch (CudaException e) {
      throw new EpException("device.cuda", failure + ": " + e.getMessage(), e);
    }
  }

  private static CudaDeviceInfo device(int number) {
    CUdevice device = get(number);
    byte[] name = new byte[NAME_BYTES];
    JCudaDriver.cuDeviceGetName(name, name.length, device);
    long[] bytes = new long[1];
    JCudaDriver.cuDeviceTotalMem(bytes, device);
    return new CudaDeviceInfo(
        number,
        text(name),
        attribute(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        attribute(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        attribute(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        attribute(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        attribute(
            device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        bytes[0],
        attribute(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)
            == CUcomputemode.CU_COMPUTEMODE_PROHIBITED,
        has(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING),
        has(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
        has(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED),
        has(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED),
        has(
            device,
            CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM));
  }

  private static CUdevice get(int number) {
    CUdevice device = new CUdevice();
    JCudaDriver.cuDeviceGet(device, number);
    return device;
  }

  private static int attribute(CUdevice device, int attribute) {
    int[] value = new int[1];
    JCudaDriver.cuDeviceGetAttribute(value, attribute, device);
    return value[0];
  }

  private static boolean has(CUdevice device, int attribute) {
    return attribute(device, attribute) != 0;
  }

  private static String text(byte[] zeroTerminated) {
    int length = 0;
    while (length < zeroTerminated.length && zeroTerminated[length] != 0) {
      length++;
    }
    return new String(zeroTerminated, 0, length, StandardCharsets.UTF_8).trim();
  }

  /**
   * Takes a use of a device's primary context, which ONNX Runtime's CUDA provider shares, for
   * {@link #releasePrimaryContext}; makes it current to the calling thread.
   *
   * @throws EpException {@code device.cuda} if the device has no room for it or is lost
   */
  static void retainPrimaryContext(CudaDeviceInfo info) {
    ask(
        "no context can be had on " + info.label(),
        () -> {
          CUcontext context = new CUcontext();
          CUdevice device = get(info.number());
          JCudaDriver.cuDevicePrimaryCtxRetain(context, device);
          try {
            JCudaDriver.cuCtxSetCurrent(context);
          } catch (CudaException e) {
            JCudaDriver.cuDevicePrimaryCtxRelease(device);
            throw e;
          }
        });
  }

  /**
   * Gives a use of the context up; the last one destroys it with everything in it.
   *
   * @throws EpException {@code device.cuda} if the device is lost
   */
  static void releasePrimaryContext(CudaDeviceInfo info) {
    ask(
        "the context on " + info.label() + " cannot be given up",
        () -> JCudaDriver.cuDevicePrimaryCtxRelease(get(info.number())));
  }
}
