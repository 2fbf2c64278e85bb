package dev.expertbank.memory;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.spi.EpException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class HostMemoryTest {
  private static final long GIB = 1L << 30;

  @TempDir Path root;

  private HostMemory memory = new HostMemory(Path.of("none"), Path.of("none"), () -> 42);

  @BeforeEach
  void machineWithEightGibAvailable() throws IOException {
    memory = new HostMemory(root.resolve("proc"), root.resolve("cgroup"), () -> 42);
    write("proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n");
  }

  @Test
  void withoutControlGroupsWhatTheKernelCallsAvailableIsFree() {
    assertThat(memory.free().bytes()).isEqualTo(8 * GIB);
    assertThat(memory.free().source()).startsWith("MemAvailable");
  }

  @Test
  void theTightestVersionTwoGroupUpToTheTopDecides() throws IOException {
    write("proc/self/cgroup", "0::/app/worker\n");
    group2("cgroup/app", 3 * GIB, GIB, 0);
    group2("cgroup/app/worker", 5 * GIB, GIB, 0);
    assertThat(memory.free().bytes()).isEqualTo(2 * GIB);
    assertThat(memory.free().source()).endsWith("cgroup/app");
  }

  @Test
  void aGroupWithoutLimitOrWithMoreThanTheMachineHasDoesNotDecide() throws IOException {
    write("proc/self/cgroup", "0::/app/worker\n");
    write("cgroup/app/memory.max", "max\n");
    group2("cgroup/app/worker", 64 * GIB, GIB, 0);
    assertThat(memory.free().bytes()).isEqualTo(8 * GIB);
  }

  @Test
  void inactiveFileCacheIsNotUse() throws IOException {
    write("proc/self/cgroup", "0::/\n");
    group2("cgroup", 4 * GIB, 4 * GIB, 3 * GIB);
    assertThat(memory.free().bytes()).isEqualTo(3 * GIB);
  }

  @Test
  void useBeyondALoweredLimitLeavesNothingFree() throws IOException {
    write("proc/self/cgroup", "0::/\n");
    group2("cgroup", GIB, 4 * GIB, 0);
    assertThat(memory.free().bytes()).isZero();
  }

  @Test
  void versionOneGroupsAreReadAlsoWhenTheContainerShowsOnlyItsOwnAtTheTop() throws IOException {
    write("proc/self/cgroup", "7:cpu:/x\n5:hugetlb,memory:/docker/abc\n0::/\n");
    write("cgroup/memory/memory.limit_in_bytes", 2 * GIB + "\n");
    write("cgroup/memory/memory.usage_in_bytes", GIB + "\n");
    write("cgroup/memory/memory.stat", "cache 1\ntotal_inactive_file " + GIB / 2 + "\n");
    assertThat(memory.free().bytes()).isEqualTo(GIB + GIB / 2);
  }

  @Test
  void aPathThatLeadsOutOfTheHierarchyCountsAsItsTop() throws IOException {
    write("proc/self/cgroup", "0::/../../outside\n");
    group2("outside", GIB / 4, 0, 0);
    group2("cgroup", GIB, 0, 0);
    assertThat(memory.free().bytes()).isEqualTo(GIB);
  }

  @Test
  void aSystemWithoutMeminfoFallsBackToWhatTheJvmReports() throws IOException {
    Files.delete(root.resolve("proc/meminfo"));
    assertThat(memory.free())
        .isEqualTo(new HostMemory.Free(42, "the free memory that the JVM reports"));
  }

  @Test
  void filesThatCannotBeUnderstoodAreAnErrorThatNamesThem() throws IOException {
    write("proc/meminfo", "MemTotal: 5 kB\n");
    assertUnknown("meminfo", "MemAvailable:");
    write("proc/meminfo", "MemAvailable: many kB\n");
    assertUnknown("meminfo", "many");
    write("proc/meminfo", "MemAvailable: 1000 kB\n");
    write("proc/self/cgroup", "0::/\n");
    write("cgroup/memory.max", "\n");
    write("cgroup/memory.current", "5\n");
    assertUnknown("memory.max", "''");
    write("cgroup/memory.max", "");
    assertUnknown("memory.max", "empty");
  }

  @Test
  void thisMachineHasSomeMemoryFree() {
    assertThat(new HostMemory().free().bytes()).isPositive();
  }

  private void assertUnknown(String... parts) {
    assertThatThrownBy(memory::free)
        .isInstanceOf(EpException.class)
        .hasMessageContainingAll(parts)
        .extracting("code")
        .isEqualTo("memory.free-unknown");
  }

  private void group2(String group, long limit, long usage, long inactiveFile) throws IOException {
    write(group + "/memory.max", limit + "\n");
    write(group + "/memory.current", usage + "\n");
    write(group + "/memory.stat", "anon 5\ninactive_file " + inactiveFile + "\n");
  }

  private void write(String path, String text) throws IOException {
    Path file = root.resolve(path);
    Files.createDirectories(file.getParent());
    Files.writeString(file, text);
  }
}
