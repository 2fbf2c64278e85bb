package dev.expertbank.state;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.expertbank.memory.MemoryException;
import dev.expertbank.memory.MemoryGovernor;
import dev.expertbank.memory.MemoryLease;
import dev.expertbank.memory.MemoryRefusal;
import dev.expertbank.memory.MemoryRole;
import dev.expertbank.memory.OutstandingClaim;
import dev.expertbank.memory.Tier;
import dev.expertbank.memory.TierUsage;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class StateLedgerTest {
  private static final long LIMIT = 1000;
  private static final List<StateBufferRequest> REQUESTS =
      List.of(
          new StateBufferRequest(StateByteClass.COMPRESSED, "compressed", 200),
          new StateBufferRequest(StateByteClass.CARRY, "carry", 40),
          new StateBufferRequest(StateByteClass.DENSE_RING, "ring", 60),
          new StateBufferRequest(StateByteClass.INDEX, "index", 30),
          new StateBufferRequest(StateByteClass.INDEX_CARRY, "index carry", 8),
          new StateBufferRequest(StateByteClass.SCRATCH, "scores", 50),
          new StateBufferRequest(StateByteClass.SCRATCH, "nothing", 0));
  private static final long TOTAL = 200 + 40 + 60 + 30 + 8 + 50 + 1;

  private final MemoryGovernor governor = new MemoryGovernor("cuda:0", Map.of(Tier.DEVICE, LIMIT));
  private final FakeDevice device = new FakeDevice();
  private final StateLedger ledger = new StateLedger(governor, Tier.DEVICE, 0, device);

  @Test
  void aChargeIsTheSumOfItsBuffersAndAnEmptyWorkspaceCountsAsOneByte() {
    try (StateCharge charge = ledger.charge(group(1), REQUESTS)) {
      assertThat(charge.bytes()).isEqualTo(TOTAL);
      assertThat(device.liveBytes()).isEqualTo(TOTAL);
      assertThat(charge.buffers().stream().map(StateBuffer::bytes))
          .containsExactly(200L, 40L, 60L, 30L, 8L, 50L, 1L);
      assertThat(ledger.metrics().residentBytes()).isEqualTo(TOTAL);
      assertThat(ledger.metrics().residentByClass())
          .isEqualTo(
              Map.of(
                  StateByteClass.COMPRESSED, 200L,
                  StateByteClass.CARRY, 40L,
                  StateByteClass.DENSE_RING, 60L,
                  StateByteClass.INDEX, 30L,
                  StateByteClass.INDEX_CARRY, 8L,
                  StateByteClass.SCRATCH, 51L));
    }
  }

  @Test
  void theGovernorSeesTheChargeInTheBooksItSharesWithOtherHolders() {
    MemoryLease weights =
        governor.reserve(Tier.DEVICE, 500, MemoryRole.WEIGHTS, governor.newHolder("bank"));
    try (StateCharge charge = ledger.charge(group(1), REQUESTS)) {
      assertThat(governor.usage(Tier.DEVICE).leased()).isEqualTo(500 + charge.bytes());
      assertThat(governor.outstanding())
          .extracting(OutstandingClaim::role)
          .containsExactly(MemoryRole.WEIGHTS, MemoryRole.WORKSPACE);
      assertThat(outOfMemory(2))
          .isEqualTo(new StateRefusal.OutOfMemory(2, 0, TOTAL, 500 + TOTAL, LIMIT));
    }
    weights.close();
    assertThat(governor.leakReport()).isEmpty();
  }

  @Test
  void aChargeReservesAndReleasesExactlyOnceHoweverOftenItIsClosed() {
    StateCharge charge = ledger.charge(group(1), REQUESTS);
    assertThat(governor.usage(Tier.DEVICE).reservations()).isEqualTo(1);
    charge.close();
    charge.close();
    TierUsage usage = governor.usage(Tier.DEVICE);
    assertThat(usage.reservations()).isEqualTo(1);
    assertThat(usage.releases()).isEqualTo(1);
    assertThat(usage.leased()).isZero();
    assertThat(ledger.metrics().charges()).isEqualTo(1);
    assertThat(ledger.metrics().releases()).isEqualTo(1);
    assertThat(device.liveBytes()).isZero();
  }

  @Test
  void theLedgerReportsTheCeilingOfTheGovernorAsItChanges() {
    assertThat(ledger.deviceUsage().limit()).isEqualTo(LIMIT);
    governor.setLimit(Tier.DEVICE, 400);
    try (StateCharge charge = ledger.charge(group(1), REQUESTS)) {
      assertThat(ledger.deviceUsage().limit()).isEqualTo(400);
      assertThat(ledger.deviceUsage().claimed()).isEqualTo(charge.bytes());
      assertThat(ledger.deviceUsage().available()).isEqualTo(400 - charge.bytes());
    }
  }

  @Test
  void aChargeOverTheLimitIsRefusedBeforeAnythingIsAllocatedAndOnlyTheFailuresCount() {
    governor.setLimit(Tier.DEVICE, TOTAL + 100);
    try (StateCharge first = ledger.charge(group(1), REQUESTS)) {
      StateLedgerMetrics before = ledger.metrics();
      TierUsage usageBefore = governor.usage(Tier.DEVICE);
      int allocationsBefore = device.allocations();
      assertThat(outOfMemory(2))
          .isEqualTo(new StateRefusal.OutOfMemory(2, 0, TOTAL, first.bytes(), TOTAL + 100));
      assertThat(device.allocations()).isEqualTo(allocationsBefore);
      assertThat(governor.usage(Tier.DEVICE)).isEqualTo(usageBefore);
      assertThat(ledger.residentBytes(2)).isZero();
      assertThat(ledger.metrics())
          .isEqualTo(
              new StateLedgerMetrics(
                  before.residentBytes(),
                  before.peakBytes(),
                  before.residentByClass(),
                  0,
                  before.charges(),
                  before.releases(),
                  1));
    }
  }

  @Test
  void anInvalidGroupIsRefusedByNameAndTouchesNothing() {
    CsaStateGroupDescriptor wrong =
        new CsaStateGroupDescriptor(5, StateCacheFormat.F32, 8, 64, 64, 0, 0, 1, 1, true, true);
    StateLedgerMetrics before = ledger.metrics();
    assertThat(refusal(wrong)).isEqualTo(new StateRefusal.UnsupportedRatio(5));
    assertThat(refusal(group(1, 3))).isEqualTo(new StateRefusal.DeviceMismatch(3, 0));
    assertThat(ledger.metrics()).isEqualTo(before);
    assertThat(governor.usage(Tier.DEVICE).reservations()).isZero();
    assertThat(device.allocations()).isZero();
  }

  @Test
  void onlyALackOfMemoryIsAnOutOfMemoryError() {
    governor.setLimit(Tier.DEVICE, 10);
    assertThatThrownBy(() -> ledger.charge(group(1), REQUESTS))
        .isInstanceOf(StateGroupException.class)
        .hasMessage(
            "The state of request 1 needs 389 bytes on device 0, where 0 of 10 are claimed; raise"
                + " the memory budget, or run fewer requests at once.")
        .hasCauseInstanceOf(MemoryException.class)
        .extracting("code")
        .isEqualTo("state.out-of-memory");
  }

  @Test
  void theClaimIsThereBeforeTheDeviceIsAsked() {
    List<Long> claimed = new ArrayList<>();
    StateLedger watching =
        new StateLedger(
            governor,
            Tier.DEVICE,
            0,
            new FakeDevice(() -> claimed.add(governor.usage(Tier.DEVICE).leased())));
    watching.charge(group(1), REQUESTS).close();
    assertThat(claimed).hasSize(REQUESTS.size()).containsOnly(TOTAL);
  }

  @Test
  void aFailedAllocationOfAnyBufferGivesBackTheOthersAndTheClaim() {
    for (int failing = 1; failing <= REQUESTS.size(); failing++) {
      FakeDevice failingDevice = new FakeDevice();
      failingDevice.failingAllocation = failing;
      StateLedger failingLedger = new StateLedger(governor, Tier.DEVICE, 0, failingDevice);
      MemoryException failed =
          catchThrowableOfType(
              MemoryException.class, () -> failingLedger.charge(group(1), REQUESTS));
      StateBufferRequest request = REQUESTS.get(failing - 1);
      assertThat(failed.refusal())
          .isEqualTo(
              new MemoryRefusal.AllocationFailed(
                  Tier.DEVICE,
                  request.chargedBytes(),
                  MemoryRole.WORKSPACE,
                  "state " + request.byteClass() + " '" + request.name() + "'"));
      assertThat(failed).hasCauseInstanceOf(IllegalStateException.class);
      assertThat(failingDevice.liveBytes()).isZero();
      assertThat(governor.leakReport()).isEmpty();
      assertThat(failingLedger.metrics().residentBytes()).isZero();
      assertThat(failingLedger.metrics().chargeFailures()).isEqualTo(1);
      failingLedger.charge(group(1), REQUESTS).close();
    }
    assertThat(governor.usage(Tier.DEVICE).releases())
        .isEqualTo(governor.usage(Tier.DEVICE).reservations());
  }

  @Test
  void bytesThatCannotBeFreedStayClaimed() {
    StateCharge charge = ledger.charge(group(1), REQUESTS.subList(0, 2));
    device.failingFree = true;
    charge.close();
    charge.close();
    assertThat(ledger.metrics().quarantinedBytes()).isEqualTo(240);
    assertThat(ledger.metrics().residentBytes()).isZero();
    assertThat(governor.usage(Tier.DEVICE).leased()).isEqualTo(240);
    assertThat(governor.leakReport()).contains("state groups", "240 bytes");
  }

  @Test
  void requestsAreIsolatedFromEachOther() {
    StateCharge first = ledger.charge(group(1), REQUESTS.subList(0, 1));
    StateCharge firstLayer2 = ledger.charge(group(1), REQUESTS.subList(1, 2));
    StateCharge second = ledger.charge(group(2), REQUESTS.subList(0, 1));
    assertThat(ledger.residentBytes(1)).isEqualTo(240);
    assertThat(ledger.residentBytes(2)).isEqualTo(200);
    assertThat(ledger.residentBytes(3)).isZero();
    first.close();
    assertThat(ledger.residentBytes(1)).isEqualTo(40);
    assertThat(ledger.residentBytes(2)).isEqualTo(200);
    firstLayer2.close();
    second.close();
    assertThat(ledger.metrics().residentBytes()).isZero();
  }

  @Test
  void devicesAreIsolatedFromEachOther() {
    MemoryGovernor otherGovernor = new MemoryGovernor("cuda:1", Map.of(Tier.DEVICE, LIMIT));
    StateLedger other = new StateLedger(otherGovernor, Tier.DEVICE, 1, new FakeDevice());
    StateCharge here = ledger.charge(group(1), REQUESTS);
    StateCharge there = other.charge(group(1, 1), REQUESTS);
    here.close();
    assertThat(ledger.residentBytes(1)).isZero();
    assertThat(other.residentBytes(1)).isEqualTo(TOTAL);
    assertThat(otherGovernor.usage(Tier.DEVICE).leased()).isEqualTo(TOTAL);
    there.close();
  }

  @Test
  void thePeakStaysWhenTheStateGoesBackToTheBaseline() {
    StateCharge first = ledger.charge(group(1), REQUESTS);
    StateCharge second = ledger.charge(group(2), REQUESTS);
    first.close();
    second.close();
    ledger.charge(group(3), REQUESTS).close();
    assertThat(ledger.metrics().residentBytes()).isZero();
    assertThat(ledger.metrics().residentByClass().values()).containsOnly(0L);
    assertThat(ledger.metrics().peakBytes()).isEqualTo(2 * TOTAL);
    assertThat(governor.usage(Tier.DEVICE).claimed()).isZero();
    assertThat(device.liveBytes()).isZero();
  }

  @Test
  void addressesAreStableForTheLifeOfTheCharge() {
    StateCharge first = ledger.charge(group(1), REQUESTS);
    List<Long> addresses = first.buffers().stream().map(StateBuffer::address).toList();
    assertThat(addresses).doesNotHaveDuplicates().doesNotContain(0L);
    StateCharge second = ledger.charge(group(2), REQUESTS);
    second.close();
    assertThat(first.buffers().stream().map(StateBuffer::address)).isEqualTo(addresses);
    first.close();
  }

  @Test
  void anUnlimitedLedgerRefusesNothingAndCountsAllTheSame() {
    StateLedger unlimited = StateLedger.unlimited(Tier.DEVICE, 0, device);
    List<StateCharge> charges = new ArrayList<>();
    for (int request = 0; request < 10; request++) {
      charges.add(unlimited.charge(group(request), REQUESTS));
    }
    assertThat(unlimited.metrics().residentBytes()).isEqualTo(10 * TOTAL);
    assertThat(unlimited.deviceUsage().leased()).isEqualTo(10 * TOTAL);
    assertThat(unlimited.deviceUsage().limit()).isEqualTo(MemoryGovernor.UNLIMITED);
    charges.forEach(StateCharge::close);
    assertThat(unlimited.metrics().residentBytes()).isZero();
    assertThat(unlimited.metrics().peakBytes()).isEqualTo(10 * TOTAL);
    assertThat(unlimited.deviceUsage().leased()).isZero();
  }

  @Test
  void sizesThatOverflowAreRefused() {
    List<StateBufferRequest> huge =
        List.of(
            new StateBufferRequest(StateByteClass.COMPRESSED, "a", Long.MAX_VALUE),
            new StateBufferRequest(StateByteClass.CARRY, "b", 1));
    assertThat(
            catchThrowableOfType(MemoryException.class, () -> ledger.charge(group(1), huge)).code())
        .isEqualTo("memory.invalid-request");
    assertThat(governor.leakReport()).isEmpty();
  }

  @Test
  void onlyScratchMayBeEmpty() {
    assertThatThrownBy(() -> new StateBufferRequest(StateByteClass.CARRY, "carry", 0))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> new StateBufferRequest(StateByteClass.SCRATCH, "scores", -1))
        .isInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void requestsOnManyThreadsNeverPassTheLimitAndLeaveNothing() throws Exception {
    List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
    AtomicLong granted = new AtomicLong();
    AtomicLong refused = new AtomicLong();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      long request = i;
      threads.add(
          Thread.ofPlatform()
              .start(
                  () -> {
                    try {
                      work(new Random(request), request, granted, refused);
                    } catch (Throwable e) {
                      failures.add(e);
                    }
                  }));
    }
    for (Thread thread : threads) {
      thread.join();
    }
    assertThat(failures).isEmpty();
    assertThat(granted).hasPositiveValue();
    assertThat(refused).hasPositiveValue();
    assertThat(ledger.metrics().charges()).isEqualTo(granted.get());
    assertThat(ledger.metrics().releases()).isEqualTo(granted.get());
    assertThat(ledger.metrics().chargeFailures()).isEqualTo(refused.get());
    assertThat(ledger.metrics().residentBytes()).isZero();
    assertThat(ledger.metrics().peakBytes()).isLessThanOrEqualTo(LIMIT);
    assertThat(device.liveBytes()).isZero();
    assertThat(governor.leakReport()).isEmpty();
  }

  private void work(Random random, long request, AtomicLong granted, AtomicLong refused) {
    List<StateCharge> held = new ArrayList<>();
    for (int step = 0; step < 1000; step++) {
      if (!held.isEmpty() && random.nextInt(5) < 2) {
        held.removeLast().close();
      } else {
        try {
          held.add(ledger.charge(group(request), REQUESTS));
          granted.incrementAndGet();
        } catch (StateGroupException e) {
          refused.incrementAndGet();
        }
      }
      assertThat(device.liveBytes()).isLessThanOrEqualTo(LIMIT);
      assertThat(ledger.residentBytes(request)).isEqualTo(held.size() * TOTAL);
    }
    held.forEach(StateCharge::close);
  }

  private StateRefusal outOfMemory(long request) {
    return refusal(group(request));
  }

  private StateRefusal refusal(CsaStateGroupDescriptor group) {
    return catchThrowableOfType(StateGroupException.class, () -> ledger.charge(group, REQUESTS))
        .refusal();
  }

  private static CsaStateGroupDescriptor group(long request) {
    return group(request, 0);
  }

  private static CsaStateGroupDescriptor group(long request, int deviceOrdinal) {
    return new CsaStateGroupDescriptor(
        128, StateCacheFormat.F32, 8, 64, 64, 0, deviceOrdinal, 1, request, true, true);
  }
}
