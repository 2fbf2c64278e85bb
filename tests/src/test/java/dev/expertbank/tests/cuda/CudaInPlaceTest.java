package dev.expertbank.tests.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.qmoe.device.Device.InPlace;
import dev.expertbank.qmoe.device.cuda.CudaDevice;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What of a file and of other memory a GPU reads where it is. */
@RequiresGpu
class CudaInPlaceTest {
  private static final int PAGE = 4096;

  /** The last page is not full. */
  private static final int SIZE = 64 * PAGE + 100;

  private static final long PAGES_BYTES = 65L * PAGE;

  private final Arena arena = Arena.ofShared();
  private MappedFile file;

  @BeforeEach
  void write(@TempDir Path directory) throws Exception {
    file = MappedFile.write(directory, arena, SIZE);
  }

  @AfterEach
  void close() throws Exception {
    file.close();
    arena.close();
  }

  @Test
  void aWholeFileIsReadWhereItIs() {
    try (CudaDevice device = Gpu.open()) {
      assertThat(device.openInPlace(file.mapping()))
          .isEqualTo(new InPlace(file.mapping().address(), SIZE, ""));
    }
  }

  @Test
  void tensorsThatShareAPageAreRegisteredOnce() {
    try (CudaDevice device = Gpu.openPinning(PAGES_BYTES)) {
      MemorySegment first = file.mapping().asSlice(10, 20 * PAGE);
      MemorySegment third = file.mapping().asSlice(40 * PAGE + 7, 10 * PAGE);
      MemorySegment second = file.mapping().asSlice(20 * PAGE + 10, 30 * PAGE);
      MemorySegment rest = file.mapping().asSlice(50 * PAGE, SIZE - 50 * PAGE);
      for (MemorySegment tensor : new MemorySegment[] {first, third, second, rest, first}) {
        assertThat(device.openInPlace(tensor))
            .isEqualTo(new InPlace(tensor.address(), tensor.byteSize(), ""));
      }
    }
  }

  @Test
  void theLimitEndsWhatIsReadInPlaceAndIsTheReasonForTheRest() {
    try (CudaDevice device = Gpu.openPinning(10 * PAGE + 17)) {
      InPlace start = device.openInPlace(file.mapping().asSlice(5, 20 * PAGE));
      assertThat(start.address()).isEqualTo(file.mapping().address() + 5);
      assertThat(start.bytes()).isEqualTo(10 * PAGE - 5);
      assertThat(start.reason()).isEqualTo("pin.limit of 40977 bytes is reached");
      InPlace next = device.openInPlace(file.mapping().asSlice(20 * PAGE + 5, PAGE));
      assertThat(next.bytes()).isZero();
      assertThat(next.reason()).isEqualTo(start.reason());
      InPlace within = device.openInPlace(file.mapping().asSlice(PAGE, PAGE));
      assertThat(within).isEqualTo(new InPlace(file.mapping().address() + PAGE, PAGE, ""));
    }
  }

  @Test
  void withALimitOfNothingNothingIsReadInPlace() {
    try (CudaDevice device = Gpu.openPinning(0)) {
      InPlace none = device.openInPlace(file.mapping());
      assertThat(none.bytes()).isZero();
      assertThat(none.reason()).isEqualTo("pin.limit of 0 bytes is reached");
    }
  }

  @Test
  void memoryThatIsNoFileIsReadWhereItIs() {
    MemorySegment copy = file.copy(arena);
    try (CudaDevice device = Gpu.open()) {
      assertThat(device.openInPlace(copy)).isEqualTo(new InPlace(copy.address(), SIZE, ""));
    }
  }

  @Test
  void closingTheDeviceEndsTheRegistrations() {
    for (int session = 0; session < 2; session++) {
      try (CudaDevice device = Gpu.open()) {
        assertThat(device.openInPlace(file.mapping()).bytes()).isEqualTo(SIZE);
      }
    }
  }

  @Test
  void memoryOfTheHostIsZeroedAndAtOneAddress() {
    try (CudaDevice device = Gpu.open()) {
      MemorySegment table = device.hostMemory(3 * PAGE + 8);
      assertThat(table.toArray(ValueLayout.JAVA_BYTE)).containsOnly((byte) 0);
      table.set(ValueLayout.JAVA_LONG, 3 * PAGE, 1);
      assertThat(table.get(ValueLayout.JAVA_LONG, 3 * PAGE)).isEqualTo(1);
    }
  }
}
