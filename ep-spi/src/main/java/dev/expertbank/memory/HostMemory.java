package dev.expertbank.memory;

import com.sun.management.OperatingSystemMXBean;
import dev.expertbank.spi.EpException;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Finds out how much memory of this machine is free for this process.
 *
 * <p>On Linux it is the smaller of {@code MemAvailable} and what is left under the memory limit of
 * the process's control group and of each group around it (versions 1 and 2). Inactive file cache
 * is taken off a group's usage, since the kernel gives it up before it refuses memory; otherwise
 * having read a model file once would look like having no memory. Elsewhere, macOS included, it is
 * what the JVM reports as free, which leaves out reclaimable caches and so errs on the small side.
 */
public final class HostMemory {
  private final Path proc;
  private final Path cgroups;
  private final LongSupplier freeElsewhere;

  /** The memory of this machine. */
  public HostMemory() {
    this(Path.of("/proc"), Path.of("/sys/fs/cgroup"), HostMemory::freeByJvm);
  }

  HostMemory(Path proc, Path cgroups, LongSupplier freeElsewhere) {
    this.proc = proc;
    this.cgroups = cgroups;
    this.freeElsewhere = freeElsewhere;
  }

  /**
   * Free bytes, and what they were derived from.
   *
   * @param bytes never negative
   */
  public record Free(long bytes, String source) {}

  /**
   * Reads what is free now.
   *
   * @throws EpException {@code memory.free-unknown} if a file of the kernel cannot be understood
   */
  public Free free() {
    Path meminfo = proc.resolve("meminfo");
    if (!Files.exists(meminfo)) {
      return new Free(freeElsewhere.getAsLong(), "the free memory that the JVM reports");
    }
    long available = Math.multiplyExact(1024, number(meminfo, "MemAvailable:"));
    Free least = new Free(available, "MemAvailable in " + meminfo);
    Path membership = proc.resolve("self/cgroup");
    if (Files.exists(membership)) {
      for (String line : lines(membership)) {
        least = leastInGroup(line, least);
      }
    }
    return least;
  }

  /** A line is {@code hierarchy:controllers:path}; version 2 has no controllers. */
  private Free leastInGroup(String line, Free soFar) {
    String[] fields = line.split(":", 3);
    if (fields.length < 3) {
      return soFar;
    }
    if (fields[1].isEmpty()) {
      return leastUpwards(cgroups, fields[2], Version.TWO, soFar);
    }
    if (List.of(fields[1].split(",")).contains("memory")) {
      return leastUpwards(cgroups.resolve("memory"), fields[2], Version.ONE, soFar);
    }
    return soFar;
  }

  /**
   * A container may see only a part of the hierarchy, with its own group at the top, so groups of
   * the path that are not there are passed over.
   */
  private static Free leastUpwards(Path top, String path, Version version, Free soFar) {
    Free least = soFar;
    Path relative = Path.of(path.startsWith("/") ? path.substring(1) : path).normalize();
    Path group = relative.startsWith("..") ? top : top.resolve(relative);
    while (group != null && group.startsWith(top)) {
      OptionalLong left = left(group, version);
      if (left.isPresent() && left.getAsLong() < least.bytes()) {
        least = new Free(left.getAsLong(), "the memory limit of the control group " + group);
      }
      group = group.getParent();
    }
    return least;
  }

  private static OptionalLong left(Path group, Version version) {
    Path limitFile = group.resolve(version.limit);
    if (!Files.exists(limitFile)) {
      return OptionalLong.empty();
    }
    String limit = lines(limitFile).getFirst().strip();
    if (limit.equals("max")) {
      return OptionalLong.empty();
    }
    Path usageFile = group.resolve(version.usage);
    long usage = parse(lines(usageFile).getFirst().strip(), usageFile);
    Path stat = group.resolve("memory.stat");
    long cache = Files.exists(stat) ? number(stat, version.inactiveFile) : 0;
    long used = Math.max(0, usage - cache);
    return OptionalLong.of(Math.max(0, parse(limit, limitFile) - used));
  }

  private enum Version {
    ONE("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    TWO("memory.max", "memory.current", "inactive_file");

    final String limit;
    final String usage;
    final String inactiveFile;

    Version(String limit, String usage, String inactiveFile) {
      this.limit = limit;
      this.usage = usage;
      this.inactiveFile = inactiveFile;
    }
  }

  /** The number behind a key, in a file of lines such as {@code MemAvailable: 12 kB}. */
  private static long number(Path file, String key) {
    for (String line : lines(file)) {
      String[] words = line.strip().split("\\s+", 3);
      if (words.length >= 2 && words[0].equals(key)) {
        return parse(words[1], file);
      }
    }
    throw unknown(file, "it has no line '" + key + "'", null);
  }

  private static long parse(String number, Path file) {
    try {
      return Long.parseLong(number);
    } catch (NumberFormatException e) {
      throw unknown(file, "'" + number + "' is not a number of bytes", e);
    }
  }

  private static List<String> lines(Path file) {
    try {
      List<String> lines = Files.readAllLines(file, StandardCharsets.UTF_8);
      if (lines.isEmpty()) {
        throw unknown(file, "it is empty", null);
      }
      return lines;
    } catch (IOException e) {
      throw unknown(file, e.toString(), e);
    }
  }

  private static EpException unknown(Path file, String problem, @Nullable Throwable cause) {
    return new EpException(
        "memory.free-unknown",
        "Cannot tell how much memory is free from "
            + file
            + ": "
            + problem
            + "; set the budget in bytes instead of 'auto'.",
        cause);
  }

  private static long freeByJvm() {
    return ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getFreeMemorySize();
  }
}
