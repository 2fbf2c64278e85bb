package dev.expertbank.ort;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.spi.CudaPeer;
import java.lang.foreign.Arena;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

class OrtSessionFactsTest {
  @Test
  void configurationEntriesAreThoseOfTheSession() {
    OrtSessionFacts facts = new OrtSessionFacts(Map.of("session.load_model_format", "ORT"));
    assertThat(facts.configEntry("session.load_model_format")).contains("ORT");
    assertThat(facts.configEntry("ep.cuda.device_id")).isEmpty();
  }

  @Test
  void aCudaProviderThatWasAddedByItsDeviceIsPresent() {
    assertThat(facts("ep.cuda.device_id", "2").cudaPeer()).isEqualTo(new CudaPeer.Present(2));
    assertThat(facts("ep.cudapluginexecutionprovider.device_id", "0").cudaPeer())
        .isEqualTo(new CudaPeer.Present(0));
  }

  @Test
  void otherEntriesSayNothing() {
    assertThat(facts("ep.cuda.enable_cuda_graph", "1").cudaPeer()).isEqualTo(new CudaPeer.Absent());
    assertThat(facts("ep.cuda.device_id", "first").cudaPeer()).isEqualTo(new CudaPeer.Absent());
  }

  @Test
  @EnabledOnOs(OS.LINUX)
  void whereTheLibraryIsLoadedNothingIsKnown(@TempDir Path folder) throws Exception {
    Path library = Files.write(folder.resolve("libonnxruntime_providers_cuda.so"), new byte[1]);
    try (FileChannel channel = FileChannel.open(library, StandardOpenOption.READ);
        Arena arena = Arena.ofShared()) {
      assertThat(channel.map(MapMode.READ_ONLY, 0, 1, arena).byteSize()).isOne();
      assertThat(new OrtSessionFacts(Map.of()).cudaPeer()).isEqualTo(new CudaPeer.Unknown());
    }
    assertThat(new OrtSessionFacts(Map.of()).cudaPeer()).isEqualTo(new CudaPeer.Absent());
  }

  private static OrtSessionFacts facts(String key, String value) {
    return new OrtSessionFacts(Map.of(key, value));
  }
}
