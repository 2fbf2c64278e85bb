package dev.expertbank.cli.demo;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;

/** Resident memory of this process, as Linux tells it. */
final class ProcessMemory {
  private static final Path STATUS = Path.of("/proc/self/status");

  private ProcessMemory() {}

  /** Bytes in memory after a collection; empty where the system has no {@code /proc}. */
  static OptionalLong residentBytes() {
    System.gc();
    try {
      return Files.readAllLines(STATUS).stream()
          .filter(line -> line.startsWith("VmRSS:"))
          .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) << 10)
          .findFirst();
    } catch (IOException e) {
      return OptionalLong.empty();
    }
  }
}
