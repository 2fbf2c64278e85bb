package dev.expertbank.tests.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.qmoe.device.CopyPiece;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.FaultPlan.Operation;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.qmoe.device.SlotCopy;
import dev.expertbank.qmoe.device.WeightSource;
import dev.expertbank.qmoe.device.cuda.CudaDevice;
import dev.expertbank.qmoe.device.cuda.DeviceMemory;
import dev.expertbank.residency.ResidencyActions.FillEnd;
import dev.expertbank.spi.EpException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Copies into slots, directly and through buffers, and all the ways in which they end. */
@RequiresGpu
@Timeout(300)
class CudaCopiesTest {
  private static final int PAGE = 4096;

  /** More than two buffers hold, and no multiple of anything. */
  private static final int LARGE = (18 << 20) + 4097;

  private static final int SIZE = LARGE + 3 * PAGE + 5;

  private static final int[] OFFSETS = {0, (19 << 20), (20 << 20)};

  /** Where the pieces are in the file: each starts and ends within a page. */
  private static final int[] STARTS = {3, LARGE + 11, LARGE + PAGE + 1};

  private static final int[] LENGTHS = {LARGE, 1, PAGE + 1};

  private final Arena arena = Arena.ofShared();
  private MappedFile file;

  /** How much of the file is registered. */
  enum Registered {
    ALL(Long.MAX_VALUE),
    NOTHING(0),
    /** The end of the registered part is within the first piece. */
    HALF(9 << 20);

    final long limit;

    Registered(long limit) {
      this.limit = limit;
    }
  }

  @BeforeEach
  void write(@TempDir Path directory) throws IOException {
    file = MappedFile.write(directory, arena, SIZE);
  }

  @AfterEach
  void close() throws IOException {
    file.close();
    arena.close();
  }

  private List<CopyPiece> pieces() {
    return List.of(piece(0), piece(1), piece(2));
  }

  private CopyPiece piece(int i) {
    return new CopyPiece(file.source(STARTS[i], LENGTHS[i]), OFFSETS[i]);
  }

  private static Slot slot(CudaDevice device) {
    long granularity = device.slotGranularity();
    return device.commitSlot(Math.ceilDiv(21L << 20, granularity) * granularity);
  }

  private void assertArrived(Slot slot) {
    for (int i = 0; i < STARTS.length; i++) {
      byte[] arrived = DeviceMemory.read(Gpu.info(), slot.address() + OFFSETS[i], LENGTHS[i]);
      assertThat(Arrays.mismatch(arrived, file.bytes(STARTS[i], LENGTHS[i])))
          .as("piece %s", i)
          .isEqualTo(-1);
    }
  }

  @ParameterizedTest
  @EnumSource
  void theBytesOfAFileArrive(Registered registered) {
    try (CudaDevice device = Gpu.openPinning(registered.limit)) {
      device.openInPlace(file.mapping());
      Slot slot = slot(device);
      SlotCopy copy = device.startCopy(slot, pieces());
      assertThat(copy.await()).isEqualTo(FillEnd.COMPLETED);
      assertThat(copy.await()).isEqualTo(FillEnd.COMPLETED);
      assertThat(copy.nanos()).isPositive();
      assertArrived(slot);
      device.releaseSlot(slot);
    }
  }

  @ParameterizedTest
  @EnumSource
  void theBytesOfOtherMemoryArrive(Registered registered) {
    MemorySegment memory = file.copy(arena);
    try (CudaDevice device = Gpu.openPinning(registered.limit)) {
      device.openInPlace(memory);
      Slot slot = slot(device);
      List<CopyPiece> pieces =
          List.of(0, 1, 2).stream()
              .map(
                  i ->
                      new CopyPiece(
                          new WeightSource.InMemory(memory.asSlice(STARTS[i], LENGTHS[i])),
                          OFFSETS[i]))
              .toList();
      assertThat(device.startCopy(slot, pieces).await()).isEqualTo(FillEnd.COMPLETED);
      assertArrived(slot);
      device.releaseSlot(slot);
    }
  }

  @Test
  void piecesOfTwoRegistrationsArrive() {
    try (CudaDevice device = Gpu.open()) {
      device.openInPlace(file.mapping().asSlice(0, 5 * PAGE));
      device.openInPlace(file.mapping().asSlice(9 * PAGE));
      device.openInPlace(file.mapping());
      Slot slot = slot(device);
      assertThat(device.startCopy(slot, pieces()).await()).isEqualTo(FillEnd.COMPLETED);
      assertArrived(slot);
      device.releaseSlot(slot);
    }
  }

  @Test
  void copiesThatAreStartedTogetherAllArrive() {
    try (CudaDevice device = Gpu.openPinning(9 << 20)) {
      device.openInPlace(file.mapping());
      List<Slot> slots = List.of(slot(device), slot(device), slot(device));
      List<SlotCopy> copies = slots.stream().map(slot -> device.startCopy(slot, pieces())).toList();
      copies.forEach(copy -> assertThat(copy.await()).isEqualTo(FillEnd.COMPLETED));
      slots.forEach(this::assertArrived);
      slots.forEach(device::releaseSlot);
    }
  }

  @ParameterizedTest
  @EnumSource
  void aCopyThatCannotBeSubmittedLeavesNothingUnderWay(Registered registered) {
    int call = 1;
    FaultPlan plan = FaultPlan.at(Operation.START_COPY, call);
    while (failsToSubmit(registered, plan)) {
      call++;
      plan = FaultPlan.at(Operation.START_COPY, call);
    }
    assertThat(call).as("calls of a copy").isGreaterThan(3);
  }

  /** Whether the planned call was reached. */
  private boolean failsToSubmit(Registered registered, FaultPlan plan) {
    try (CudaDevice device = Gpu.openPinning(registered.limit, plan)) {
      device.openInPlace(file.mapping());
      Slot slot = slot(device);
      FillEnd end;
      try {
        end = device.startCopy(slot, pieces()).await();
      } catch (EpException e) {
        assertThat(e.code()).isEqualTo("device.copy");
        end = FillEnd.FAILED;
      }
      assertThat(end).isEqualTo(plan.triggered() ? FillEnd.FAILED : FillEnd.COMPLETED);
      if (plan.triggered()) {
        assertThat(device.startCopy(slot, pieces()).await()).isEqualTo(FillEnd.COMPLETED);
      }
      assertArrived(slot);
      device.releaseSlot(slot);
    }
    return plan.triggered();
  }

  @Test
  void aSubmittedCopyThatFailsHasFailedForGood() {
    try (CudaDevice device = Gpu.open(FaultPlan.at(Operation.COPY, 1))) {
      Slot slot = slot(device);
      SlotCopy copy = device.startCopy(slot, pieces());
      assertThat(copy.await()).isEqualTo(FillEnd.FAILED);
      assertThat(copy.await()).isEqualTo(FillEnd.FAILED);
      assertThat(device.startCopy(slot, pieces()).await()).isEqualTo(FillEnd.COMPLETED);
      device.releaseSlot(slot);
    }
  }

  @Test
  void aWaitThatFailsLeavesOpenWhetherTheCopyHasEndedUntilAllHave() {
    try (CudaDevice device = Gpu.open(FaultPlan.at(Operation.AWAIT_COPY, 1))) {
      Slot slot = slot(device);
      assertThat(device.startCopy(slot, pieces()).await()).isEqualTo(FillEnd.MAY_BE_IN_FLIGHT);
      assertThat(device.awaitCopies()).isTrue();
      assertArrived(slot);
      assertThatThrownBy(() -> device.startCopy(slot, pieces()))
          .isInstanceOfSatisfying(
              EpException.class, e -> assertThat(e.code()).isEqualTo("device.copy"));
      device.releaseSlot(slot);
    }
  }

  @Test
  void aFileThatHasBecomeShorterFailsTheCopy() throws IOException {
    try (CudaDevice device = Gpu.openPinning(0)) {
      Slot slot = slot(device);
      try (FileChannel channel = FileChannel.open(file.path(), StandardOpenOption.WRITE)) {
        channel.truncate(LARGE / 2);
      }
      assertThat(device.startCopy(slot, pieces()).await()).isEqualTo(FillEnd.FAILED);
      device.releaseSlot(slot);
    }
  }
}
