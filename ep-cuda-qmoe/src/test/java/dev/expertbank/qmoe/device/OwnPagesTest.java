package dev.expertbank.qmoe.device;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

class OwnPagesTest {
  private static final long BYTES = OwnPages.PAGE_BYTES + 100;

  @Test
  void nothingElseIsInThePages() {
    Set<Long> pages = new HashSet<>();
    List<MemorySegment> others = new ArrayList<>();
    try (Arena arena = Arena.ofConfined()) {
      for (int i = 0; i < 200; i++) {
        MemorySegment memory = OwnPages.allocate(arena, BYTES);
        assertThat(memory.byteSize()).isEqualTo(BYTES);
        assertThat(memory.address() % OwnPages.PAGE_BYTES).isZero();
        assertThat(pages.add(pageOf(memory.address()))).isTrue();
        assertThat(pages.add(pageOf(memory.address() + BYTES - 1))).isTrue();
        others.add(arena.allocate(200));
      }
      for (MemorySegment other : others) {
        assertThat(pages)
            .doesNotContain(
                pageOf(other.address()), pageOf(other.address() + other.byteSize() - 1));
      }
    }
  }

  private static long pageOf(long address) {
    return address / OwnPages.PAGE_BYTES;
  }
}
