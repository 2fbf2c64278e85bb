package dev.expertbank.tests.packaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.tests.ChildJvm;
import dev.expertbank.tests.packaging.ModulePathTest.RunOnModulePath;
import java.io.File;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** The provider works when it and the SPI are named modules. */
class ModulePathTest {
  /** Registers the provider and prints its module. */
  public static final class RunOnModulePath {
    private RunOnModulePath() {}

    public static void main(String[] arguments) throws Exception {
      var provider = dev.expertbank.api.ExecutionProviders.require("CudaQMoE");
      var environment = ai.onnxruntime.OrtEnvironment.getEnvironment();
      try (var options = new ai.onnxruntime.OrtSession.SessionOptions();
          var registration = provider.register(environment, options, java.util.Map.of())) {
        System.out.println(
            "registered "
                + provider.epName()
                + ", "
                + registration.sessions().size()
                + " sessions");
      }
      System.out.println("module " + provider.getClass().getModule().getName());
    }
  }

  @Test
  void theProviderIsFoundAndRegisteredOnTheModulePath() throws Exception {
    String all = System.getProperty("java.class.path");
    String modules =
        Arrays.stream(all.split(File.pathSeparator))
            .filter(ModulePathTest::belongsOnModulePath)
            .collect(Collectors.joining(File.pathSeparator));
    ChildJvm.Ended ended =
        ChildJvm.run(
            RunOnModulePath.class,
            List.of(
                "--module-path",
                modules,
                "--add-modules",
                "dev.expertbank.qmoe",
                "--enable-native-access=dev.expertbank.spi,com.microsoft.onnxruntime,jcuda"));
    assertThat(ended.output())
        .contains("registered CudaQMoEExecutionProvider, 0 sessions", "module dev.expertbank.spi");
    assertThat(ended.exitCode()).isZero();
  }

  private static boolean belongsOnModulePath(String entry) {
    String path = Path.of(entry).toString();
    return path.contains("ep-spi")
        || path.contains("ep-cuda-qmoe")
        || path.contains(File.separator + "kernels")
        || path.contains("onnxruntime")
        || path.contains("jcuda")
        || path.contains("jspecify");
  }
}
