package dev.expertbank.ort;

import dev.expertbank.spi.CudaPeer;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.MemoryDevice;
import dev.expertbank.spi.SessionFacts;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/** What CreateEp is given. */
final class OrtSessionFacts implements SessionFacts {
  /**
   * What {@code SessionOptionsAppendExecutionProvider_V2} writes for the devices of ONNX Runtime's
   * CUDA provider, built in and as a plugin: both have the option by default.
   */
  private static final List<String> CUDA_DEVICE_KEYS =
      List.of("ep.cuda.device_id", "ep.cudapluginexecutionprovider.device_id");

  /** Both ways of building the CUDA provider make a library whose name begins like this. */
  private static final String CUDA_LIBRARY = "/libonnxruntime_providers_cuda";

  /** Linux has it; where it is missing, there is no CUDA either. */
  private static final Path MAPPED_FILES = Path.of("/proc/self/maps");

  private final Map<String, String> configEntries;

  OrtSessionFacts(Map<String, String> configEntries) {
    this.configEntries = Map.copyOf(configEntries);
  }

  @Override
  public Optional<String> configEntry(String key) {
    return Optional.ofNullable(configEntries.get(key));
  }

  @Override
  public CudaPeer cudaPeer() {
    for (String key : CUDA_DEVICE_KEYS) {
      String number = configEntries.get(key);
      if (number != null && number.matches("\\d{1,9}")) {
        return new CudaPeer.Present(Integer.parseInt(number));
      }
    }
    return isCudaLibraryLoaded() ? new CudaPeer.Unknown() : new CudaPeer.Absent();
  }

  private static boolean isCudaLibraryLoaded() {
    if (!Files.exists(MAPPED_FILES)) {
      return false;
    }
    // File names may have any bytes.
    try (Stream<String> lines = Files.lines(MAPPED_FILES, StandardCharsets.ISO_8859_1)) {
      return lines.anyMatch(line -> line.contains(CUDA_LIBRARY));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * Refuses what cannot work, where ONNX Runtime itself would create the session and then fail
   * every run for want of an allocator.
   *
   * @throws EpException {@code io.device}
   */
  void checkCanAllocateOn(MemoryDevice.Gpu gpu) {
    if (gpu.vendorId() != MemoryDevice.Gpu.NVIDIA) {
      return;
    }
    switch (cudaPeer()) {
      case CudaPeer.Absent absent ->
          throw new EpException(
              "io.device",
              "ONNX Runtime's CUDA provider is not in this session: add it after this provider"
                  + " (options.addCUDA) or use io=host");
      case CudaPeer.Present present when present.gpu() != gpu.number() ->
          throw new EpException(
              "io.device",
              "ONNX Runtime's CUDA provider of this session is on GPU "
                  + present.gpu()
                  + " and this provider on GPU "
                  + gpu.number()
                  + ": use one GPU for both or io=host");
      case CudaPeer.Present present -> {}
      case CudaPeer.Unknown unknown -> {}
    }
  }
}
