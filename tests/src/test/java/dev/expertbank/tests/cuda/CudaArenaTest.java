package dev.expertbank.tests.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.FaultPlan.Operation;
import dev.expertbank.qmoe.device.Slot;
import dev.expertbank.qmoe.device.cuda.CudaDevice;
import dev.expertbank.qmoe.device.cuda.DeviceMemory;
import dev.expertbank.spi.EpException;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** Slots of a GPU against the free memory that the driver reports. */
@RequiresGpu
class CudaArenaTest {
  /** Calls of the driver that a commit makes: create, map, set access, release the handle. */
  private static final int COMMIT_CALLS = 4;

  private static final int SLOTS = 64;
  private static final long SEED = 20;

  /** Slots that a device keeps to itself, such as those of page tables, are no leak. */
  private static final long TOLERANCE = 32L << 20;

  @Test
  void whatIsCommittedIsTakenFromTheDeviceAndWhatIsReleasedGoesBack() {
    try (CudaDevice device = Gpu.open()) {
      long bytes = SLOTS * device.slotGranularity();
      long before = free(device);
      Slot slot = device.commitSlot(bytes);
      assertThat(free(device)).isCloseTo(before - bytes, within(TOLERANCE));
      device.releaseSlot(slot);
      assertThat(free(device)).isCloseTo(before, within(TOLERANCE));
    }
  }

  @Test
  void aThousandCommitsAndReleasesInAnyOrderLeakNothing() {
    SplittableRandom random = new SplittableRandom(SEED);
    try (CudaDevice device = Gpu.open()) {
      device.releaseSlot(device.commitSlot(device.slotGranularity()));
      long before = free(device);
      List<Slot> held = new ArrayList<>();
      for (int step = 0; step < 1000; step++) {
        if (held.isEmpty() || (held.size() < SLOTS && random.nextBoolean())) {
          Slot slot = device.commitSlot(random.nextLong(1, 9) * device.slotGranularity());
          assertThat(held).noneMatch(other -> overlap(other, slot));
          held.add(slot);
        } else {
          device.releaseSlot(held.remove(random.nextInt(held.size())));
        }
      }
      held.forEach(device::releaseSlot);
      assertThat(free(device)).as("seed %s", SEED).isCloseTo(before, within(TOLERANCE));
      Slot again = device.commitSlot(device.slotGranularity());
      device.releaseSlot(again);
    }
  }

  @Test
  void aCommitThatFailsHalfWayLeavesNothingBehind() {
    for (int call = 1; call <= COMMIT_CALLS + 1; call++) {
      FaultPlan plan = FaultPlan.at(Operation.COMMIT_SLOT, call);
      try (CudaDevice device = Gpu.open(plan)) {
        long bytes = SLOTS * device.slotGranularity();
        long before = free(device);
        if (call > COMMIT_CALLS) {
          device.releaseSlot(device.commitSlot(bytes));
          assertThat(plan.triggered()).as("calls of a commit").isFalse();
          continue;
        }
        assertThatThrownBy(() -> device.commitSlot(bytes))
            .isInstanceOfSatisfying(
                EpException.class, e -> assertThat(e.code()).isEqualTo("device.memory"))
            .hasMessageContaining("CUDA_ERROR_UNKNOWN")
            .hasMessageContaining(Gpu.info().label());
        assertThat(free(device)).as("call %s", call).isCloseTo(before, within(TOLERANCE));
        Slot slot = device.commitSlot(bytes);
        DeviceMemory.fill(Gpu.info(), slot.address(), bytes, (byte) 7);
        assertThat(DeviceMemory.read(Gpu.info(), slot.address() + bytes - 3, 3))
            .containsOnly((byte) 7);
        device.releaseSlot(slot);
      }
    }
  }

  @Test
  void aReleaseThatFailsLeavesTheSlotAsItWas() {
    try (CudaDevice device = Gpu.open(FaultPlan.at(Operation.RELEASE_SLOT, 1))) {
      long bytes = SLOTS * device.slotGranularity();
      long before = free(device);
      Slot slot = device.commitSlot(bytes);
      DeviceMemory.fill(Gpu.info(), slot.address(), bytes, (byte) 9);
      assertThatThrownBy(() -> device.releaseSlot(slot))
          .isInstanceOfSatisfying(
              EpException.class, e -> assertThat(e.code()).isEqualTo("device.memory"));
      assertThat(DeviceMemory.read(Gpu.info(), slot.address(), 16)).containsOnly((byte) 9);
      assertThat(free(device)).isCloseTo(before - bytes, within(TOLERANCE));
      device.releaseSlot(slot);
      assertThat(free(device)).isCloseTo(before, within(TOLERANCE));
    }
  }

  @Test
  void moreThanTheDeviceHasIsRefusedAndChangesNothing() {
    try (CudaDevice device = Gpu.open()) {
      long before = free(device);
      long granularity = device.slotGranularity();
      long bytes = (Gpu.info().memoryBytes() / granularity + 1) * granularity;
      assertThatThrownBy(() -> device.commitSlot(bytes))
          .isInstanceOf(EpException.class)
          .hasMessageContaining("CUDA_ERROR_OUT_OF_MEMORY");
      assertThat(free(device)).isCloseTo(before, within(TOLERANCE));
      assertThatThrownBy(() -> device.commitSlot(granularity + 1))
          .isInstanceOf(IllegalArgumentException.class);
      device.releaseSlot(device.commitSlot(granularity));
    }
  }

  private static boolean overlap(Slot a, Slot b) {
    return a.address() < b.address() + b.bytes() && b.address() < a.address() + a.bytes();
  }

  private static long free(CudaDevice device) {
    return device.freeMemory().bytes();
  }
}
