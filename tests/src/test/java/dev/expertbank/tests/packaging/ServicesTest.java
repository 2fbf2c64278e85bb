package dev.expertbank.tests.packaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.qmoe.QMoeProviderFactory;
import dev.expertbank.spi.Availability;
import dev.expertbank.spi.ExecutionProviderFactory;
import java.io.IOException;
import java.lang.module.ModuleDescriptor;
import java.lang.module.ModuleFinder;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;

class ServicesTest {
  private static final String SERVICE = ExecutionProviderFactory.class.getName();

  @Test
  void theServicesFileAndTheModuleNameTheSameProviders() throws Exception {
    Path provider = location();
    List<String> fromModule =
        ModuleFinder.of(provider).findAll().stream()
            .flatMap(module -> module.descriptor().provides().stream())
            .filter(provides -> provides.service().equals(SERVICE))
            .map(ModuleDescriptor.Provides::providers)
            .findFirst()
            .orElseThrow();
    assertThat(servicesFile(provider)).isEqualTo(fromModule).hasSize(1);
  }

  @Test
  void probingNamesTheHostLast() {
    assertThat(new QMoeProviderFactory().probe())
        .isInstanceOfSatisfying(
            Availability.Available.class,
            available -> assertThat(available.devices()).endsWith("host"));
  }

  private static Path location() throws URISyntaxException {
    return Path.of(
        Objects.requireNonNull(QMoeProviderFactory.class.getProtectionDomain().getCodeSource())
            .getLocation()
            .toURI());
  }

  private static List<String> servicesFile(Path provider) throws IOException {
    if (Files.isDirectory(provider)) {
      return Files.readAllLines(provider.resolve("META-INF/services").resolve(SERVICE));
    }
    try (var jar = java.nio.file.FileSystems.newFileSystem(provider)) {
      return Files.readAllLines(jar.getPath("META-INF/services", SERVICE));
    }
  }
}
