package dev.expertbank.memory;

import static dev.expertbank.memory.MemoryLeaseTest.refusal;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.memory.MemoryRefusal.CapacityUnavailable;
import dev.expertbank.memory.MemoryRefusal.InvalidRequest;
import dev.expertbank.memory.MemoryRefusal.TierExhausted;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.function.LongConsumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class MappedGrowthTest {
  private final MemoryGovernor governor =
      new MemoryGovernor("cuda:0", Map.of(Tier.DEVICE, 100L), Duration.ofMillis(200));
  private final List<String> asked = new ArrayList<>();

  @Test
  void anAllowanceBoundsWhatIsMappedAndCountsWhetherMappedOrNot() {
    MappedAllowance allowance = allowance("bank", 60);
    assertThat(usage().available()).isEqualTo(40);
    assertThat(allowance.tryMap(61)).isFalse();
    assertThat(allowance.tryMap(60)).isTrue();
    assertThat(allowance.tryMap(1)).isFalse();
    assertThat(usage().available()).isEqualTo(40);
    assertThat(usage().held()).isEqualTo(60);
    assertThat(allowance.unmap(20)).isEqualTo(20);
    assertThat(allowance.available()).isEqualTo(20);
  }

  @Test
  void unmappingMoreThanIsMappedIsCappedAndCounted() {
    MappedAllowance allowance = allowance("bank", 60);
    allowance.tryMap(10);
    assertThat(allowance.unmap(15)).isEqualTo(10);
    assertThat(usage().unmapUnderflow()).isEqualTo(5);
  }

  @Test
  void aLimitCanFallBelowWhatIsMappedAndCapacityReturnsAsItIsUnmapped() {
    MappedAllowance allowance = mapped("bank", 60, 50);
    assertThat(allowance.lowerLimit(40)).isEqualTo(40);
    assertThat(usage().available()).isEqualTo(50);
    assertThat(allowance.tryMap(1)).isFalse();
    allowance.unmap(30);
    assertThat(usage().available()).isEqualTo(80);
    assertThat(allowance.lowerLimit(1000)).isEqualTo(20);
    allowance.raiseLimit(95);
    assertThat(usage().available()).isEqualTo(5);
    assertThat(refusal(() -> allowance.raiseLimit(6))).isInstanceOf(TierExhausted.class);
  }

  @Test
  void whatIsStillMappedStaysAccountedAfterTheAllowanceIsClosed() {
    MappedAllowance allowance = mapped("bank", 60, 50);
    allowance.close();
    allowance.close();
    assertThat(usage().claimed()).isEqualTo(50);
    assertThat(governor.leakReport()).contains("bank", "50 mapped");
    allowance.unmap(50);
    assertThat(usage().claimed()).isZero();
    assertThat(governor.leakReport()).isEmpty();
    assertThat(allowance.tryMap(1)).isFalse();
    assertThat(refusal(() -> allowance.raiseLimit(1))).isInstanceOf(InvalidRequest.class);
  }

  @Test
  void growthTakesOwnRoomThenWhatIsUnclaimedThenAsksTheOthers() {
    MappedAllowance victim = reclaimable("bank", 0, 70, 70, this::comply);
    MappedAllowance requester = mapped("cache", 20, 15);
    try (MappedGrowthGrant grant = governor.prepareMappedGrowth(requester, 5)) {
      grant.commit(5);
    }
    assertThat(requester.limit()).as("its own room was enough").isEqualTo(20);
    try (MappedGrowthGrant grant = governor.prepareMappedGrowth(requester, 10)) {
      grant.commit(10);
    }
    assertThat(requester.limit()).as("10 bytes were unclaimed").isEqualTo(30);
    assertThat(asked).isEmpty();
    try (MappedGrowthGrant grant = governor.prepareMappedGrowth(requester, 25)) {
      assertThat(asked).containsExactly("bank 45");
      assertThat(victim.mapped()).isEqualTo(45);
      grant.commit(25);
    }
    assertThat(requester.limit()).isEqualTo(55);
    assertThat(requester.mapped()).isEqualTo(55);
    assertThat(victim.limit()).isEqualTo(45);
    assertThat(usage().claimed()).isEqualTo(100);
    assertThat(governor.mappedGrowthMetrics()).isEqualTo(new MappedGrowthMetrics(3, 0, 25));
  }

  @Test
  void holdersAreAskedByAscendingPriorityThenAgeAndNeverTheRequester() {
    reclaimable("important", 5, 10, 10, this::comply);
    reclaimable("first", 0, 10, 10, this::comply);
    reclaimable("second", 0, 20, 20, this::comply);
    MappedAllowance requester = reclaimable("requester", 0, 60, 60, this::comply);
    governor.prepareMappedGrowth(requester, 35).commit(35);
    assertThat(asked).containsExactly("first 0", "second 0", "important 5");
  }

  @Test
  void aHolderWithRoomToSpareGivesLimitWithoutBeingAsked() {
    MappedAllowance victim = reclaimable("bank", 0, 100, 30, this::comply);
    MappedAllowance requester = allowance("cache", 0);
    governor.prepareMappedGrowth(requester, 70).commit(70);
    assertThat(asked).isEmpty();
    assertThat(victim.limit()).isEqualTo(30);
  }

  @Test
  void theLimitMovesBeforeTheHolderIsAskedSoItCannotTakeBackWhatItFrees() {
    List<Boolean> mappedAgain = new ArrayList<>();
    MappedAllowance[] victim = new MappedAllowance[1];
    victim[0] =
        reclaimable(
            "bank",
            0,
            100,
            100,
            target -> {
              victim[0].unmap(victim[0].mapped() - target);
              mappedAgain.add(victim[0].tryMap(1));
              assertThat(usage().available()).as("nor can anyone else").isZero();
            });
    governor.prepareMappedGrowth(allowance("cache", 0), 40).commit(40);
    assertThat(mappedAgain).containsExactly(false);
  }

  @Test
  void aHolderThatReclaimsTooLittleIsNamedAndEverythingIsRolledBack() {
    MappedAllowance willing = reclaimable("willing", 0, 30, 30, this::comply);
    MappedAllowance[] stubborn = new MappedAllowance[1];
    stubborn[0] = reclaimable("stubborn", 1, 60, 60, target -> stubborn[0].unmap(5));
    MappedAllowance requester = mapped("cache", 10, 4);
    assertThat(refusal(() -> governor.prepareMappedGrowth(requester, 50)))
        .isEqualTo(
            new CapacityUnavailable(
                Tier.DEVICE,
                50,
                100,
                100,
                0,
                MemoryRole.WEIGHTS,
                "mapped holder 'stubborn (#2)' could not reach its tentative reclaim target of 46"
                    + " bytes"));
    assertThat(willing.limit()).isEqualTo(30);
    assertThat(willing.tryMap(30)).as("it may take back what it freed").isTrue();
    assertThat(stubborn[0].limit()).isEqualTo(60);
    assertThat(requester.limit()).isEqualTo(10);
    assertThat(requester.available()).isEqualTo(6);
    assertThat(usage().growthReserved()).isZero();
    assertThat(usage().claimed()).isEqualTo(100);
    assertThat(governor.mappedGrowthMetrics()).isEqualTo(new MappedGrowthMetrics(1, 1, 0));
  }

  @Test
  void aHolderThatThrowsIsNamedAndEverythingIsRolledBack() {
    IllegalStateException failure = new IllegalStateException("the device is gone");
    for (Throwable thrown : List.of(failure, new StackOverflowError("on purpose"))) {
      MappedAllowance victim =
          reclaimable("bank", 0, 100, 100, target -> MappedGrowthTest.sneakyThrow(thrown));
      MappedAllowance requester = allowance("cache", 0);
      assertThatThrownBy(() -> governor.prepareMappedGrowth(requester, 10))
          .isInstanceOf(MemoryException.class)
          .hasMessageContaining("mapped holder 'bank")
          .hasMessageContaining(String.valueOf(thrown.getMessage()))
          .hasCause(thrown);
      assertThat(victim.limit()).isEqualTo(100);
      assertThat(usage().claimed()).isEqualTo(100);
      victim.unmap(100);
      victim.close();
      requester.close();
    }
  }

  @Test
  void aHopelessRequestAsksNobody() {
    MappedAllowance victim = reclaimable("bank", 0, 50, 50, this::comply);
    governor.reserve(Tier.DEVICE, 50, MemoryRole.WORKSPACE, governor.newHolder("scratch"));
    MappedAllowance requester = allowance("cache", 0);
    assertThat(refusal(() -> governor.prepareMappedGrowth(requester, 51)))
        .isEqualTo(new TierExhausted(Tier.DEVICE, 51, 100, 100, 50, MemoryRole.WEIGHTS));
    assertThat(asked).isEmpty();
    assertThat(victim.mapped()).isEqualTo(50);
  }

  @Test
  void anUncommittedGrantGivesEverythingBackToWhereItCameFrom() {
    MappedAllowance victim = reclaimable("bank", 0, 60, 60, this::comply);
    MappedAllowance requester = mapped("cache", 20, 10);
    try (MappedGrowthGrant grant = governor.prepareMappedGrowth(requester, 40)) {
      assertThat(grant.bytes()).isEqualTo(40);
      assertThat(requester.available()).as("set aside for the grant").isZero();
      assertThat(usage().available()).isZero();
    }
    assertThat(victim.limit()).isEqualTo(60);
    assertThat(requester.limit()).isEqualTo(20);
    assertThat(requester.available()).isEqualTo(10);
    assertThat(usage().available()).isEqualTo(20);
  }

  @Test
  void aGrantCommittedWithLessReturnsTheRestToTheHoldersFirst() {
    MappedAllowance victim = reclaimable("bank", 0, 60, 60, this::comply);
    MappedAllowance requester = mapped("cache", 20, 10);
    MappedGrowthGrant grant = governor.prepareMappedGrowth(requester, 40);
    grant.commit(33);
    grant.close();
    assertThat(requester.mapped()).isEqualTo(43);
    assertThat(requester.limit()).isEqualTo(43);
    assertThat(victim.limit()).isEqualTo(57);
    assertThat(usage().claimed()).isEqualTo(100);
    assertThat(usage().growthReserved()).isZero();
  }

  @Test
  void aGrantIsCommittedOnceWithAtMostItsBytes() {
    MappedAllowance requester = allowance("cache", 0);
    MappedGrowthGrant grant = governor.prepareMappedGrowth(requester, 40);
    assertThat(refusal(() -> grant.commit(41))).isInstanceOf(InvalidRequest.class);
    assertThat(refusal(() -> grant.commit(-1))).isInstanceOf(InvalidRequest.class);
    grant.commit(40);
    assertThat(refusal(() -> grant.commit(1))).isInstanceOf(InvalidRequest.class);
    assertThat(requester.mapped()).isEqualTo(40);
  }

  @Test
  void aLimitLoweredDuringGrowthDoesNotLetTheGrantPassTheTier() {
    MappedAllowance requester = mapped("cache", 50, 30);
    MappedGrowthGrant grant = governor.prepareMappedGrowth(requester, 20);
    requester.lowerLimit(30);
    assertThat(usage().claimed()).isEqualTo(50);
    governor.reserve(Tier.DEVICE, 50, MemoryRole.WORKSPACE, governor.newHolder("scratch"));
    grant.commit(20);
    assertThat(usage().held()).isEqualTo(100);
    assertThat(usage().oversubscribed()).isZero();
  }

  @Test
  void closingAnAllowanceDuringGrowthLeavesNothingBehind() {
    MappedAllowance[] victim = new MappedAllowance[1];
    victim[0] =
        reclaimable(
            "bank",
            0,
            90,
            90,
            target -> {
              victim[0].unmap(90);
              victim[0].close();
            });
    MappedAllowance requester = mapped("cache", 10, 4);
    MappedGrowthGrant grant = governor.prepareMappedGrowth(requester, 20);
    assertThat(usage().claimed()).as("10 of the requester, 14 moved").isEqualTo(24);
    requester.close();
    assertThat(refusal(() -> grant.commit(20))).isInstanceOf(InvalidRequest.class);
    grant.close();
    assertThat(usage().claimed()).isEqualTo(4);
    requester.unmap(4);
    assertThat(usage().claimed()).isZero();
  }

  @Test
  void aHolderThatClosedItsRegistrationIsNotAsked() {
    MappedAllowance victim = mapped("bank", 100, 100);
    ReclaimRegistration registration =
        governor.registerReclaimable(holder(victim, 0, this::comply));
    registration.close();
    registration.close();
    assertThat(refusal(() -> governor.prepareMappedGrowth(allowance("cache", 0), 1)))
        .isInstanceOf(TierExhausted.class);
    assertThat(asked).isEmpty();
  }

  @Test
  void aHolderThatIsAskedCannotGrowMeanwhileButMayUseLeases() {
    MappedAllowance[] victim = new MappedAllowance[1];
    List<MemoryRefusal> refusals = new ArrayList<>();
    victim[0] =
        reclaimable(
            "bank",
            0,
            100,
            100,
            target -> {
              refusals.add(refusal(() -> governor.prepareMappedGrowth(victim[0], 1)));
              governor.reserve(Tier.HOST, 5, MemoryRole.WORKSPACE, victim[0].holder()).close();
              victim[0].unmap(40);
            });
    governor.prepareMappedGrowth(allowance("cache", 0), 40).commit(40);
    assertThat(refusals).singleElement().isInstanceOf(InvalidRequest.class);
  }

  @Test
  void aHolderOrRequesterOfAnotherGovernorIsRefused() {
    MemoryGovernor other = MemoryGovernor.unlimited("cuda:0");
    MappedAllowance stranger =
        other.reserveMappedAllowance(Tier.DEVICE, 5, MemoryRole.WEIGHTS, other.newHolder("bank"));
    assertThat(refusal(() -> governor.registerReclaimable(holder(stranger, 0, this::comply))))
        .isInstanceOf(InvalidRequest.class);
    assertThat(refusal(() -> governor.prepareMappedGrowth(stranger, 1)))
        .isInstanceOf(InvalidRequest.class);
  }

  @Test
  void zeroBytesOfGrowthNeedNobodyAndNegativeOnesAreInvalid() {
    MappedAllowance requester = allowance("cache", 0);
    governor.prepareMappedGrowth(requester, 0).commit(0);
    assertThat(governor.mappedGrowthMetrics().attempts()).isZero();
    assertThat(refusal(() -> governor.prepareMappedGrowth(requester, -1)))
        .isInstanceOf(InvalidRequest.class);
  }

  @Test
  void requestsToGrowAreServedInTheOrderOfArrivalAndTheBooksStayUsableMeanwhile() throws Exception {
    MemoryGovernor patient = new MemoryGovernor("cuda:0", Map.of(Tier.DEVICE, 100L));
    MappedAllowance victim =
        patient.reserveMappedAllowance(
            Tier.DEVICE, 100, MemoryRole.WEIGHTS, patient.newHolder("bank"));
    victim.tryMap(100);
    CountDownLatch inReclaim = new CountDownLatch(1);
    CountDownLatch mayReclaim = new CountDownLatch(1);
    List<Long> targets = new ArrayList<>();
    patient.registerReclaimable(
        holder(
            victim,
            0,
            target -> {
              inReclaim.countDown();
              await(mayReclaim);
              targets.add(target);
              victim.unmap(victim.mapped() - target);
            }));
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 5; i++) {
      int number = i;
      MappedAllowance requester =
          patient.reserveMappedAllowance(
              Tier.DEVICE, 0, MemoryRole.KV_CACHE, patient.newHolder("cache " + i));
      threads.add(
          Thread.ofPlatform()
              .start(
                  () -> patient.prepareMappedGrowth(requester, 20 - number).commit(20 - number)));
      if (i == 0) {
        inReclaim.await();
      }
      while (patient.waitingToGrow() < i) {
        Thread.onSpinWait();
      }
    }
    assertThat(patient.usage(Tier.DEVICE).claimed()).as("no lock is held").isEqualTo(100);
    assertThat(victim.tryMap(1)).isFalse();
    mayReclaim.countDown();
    for (Thread thread : threads) {
      thread.join();
    }
    assertThat(targets).containsExactly(80L, 61L, 43L, 26L, 10L);
    assertThat(patient.usage(Tier.DEVICE).held()).isEqualTo(100);
  }

  @Test
  void waitingForEarlierGrowthIsBounded() throws Exception {
    MappedAllowance[] victim = new MappedAllowance[1];
    CountDownLatch inReclaim = new CountDownLatch(1);
    CountDownLatch mayReclaim = new CountDownLatch(1);
    victim[0] =
        reclaimable(
            "bank",
            0,
            100,
            100,
            target -> {
              inReclaim.countDown();
              await(mayReclaim);
              victim[0].unmap(victim[0].mapped() - target);
            });
    MappedAllowance first = allowance("first", 0);
    MappedAllowance second = allowance("second", 0);
    Thread growing =
        Thread.ofPlatform().start(() -> governor.prepareMappedGrowth(first, 10).commit(10));
    inReclaim.await();
    assertThat(refusal(() -> governor.prepareMappedGrowth(second, 10)))
        .isInstanceOfSatisfying(
            CapacityUnavailable.class,
            refused ->
                assertThat(refused.source())
                    .isEqualTo("earlier requests to grow did not end within 200 ms"));
    Thread.currentThread().interrupt();
    assertThat(refusal(() -> governor.prepareMappedGrowth(second, 10)))
        .isInstanceOf(CapacityUnavailable.class);
    assertThat(Thread.interrupted()).as("the interruption is kept").isTrue();
    mayReclaim.countDown();
    growing.join();
    assertThat(first.mapped()).isEqualTo(10);
  }

  private MappedAllowance allowance(String name, long limit) {
    return governor.reserveMappedAllowance(
        Tier.DEVICE, limit, MemoryRole.WEIGHTS, governor.newHolder(name));
  }

  private MappedAllowance mapped(String name, long limit, long mapped) {
    MappedAllowance allowance = allowance(name, limit);
    assertThat(allowance.tryMap(mapped)).isTrue();
    return allowance;
  }

  private TierUsage usage() {
    return governor.usage(Tier.DEVICE);
  }

  private interface Reclaim extends LongConsumer {}

  private MappedAllowance reclaimable(
      String name, int priority, long limit, long mapped, Reclaim reclaim) {
    MappedAllowance allowance = mapped(name, limit, mapped);
    governor.registerReclaimable(holder(allowance, priority, reclaim));
    return allowance;
  }

  private MappedAllowance reclaimable(
      String name, int priority, long limit, long mapped, Complying reclaim) {
    MappedAllowance allowance = mapped(name, limit, mapped);
    governor.registerReclaimable(holder(allowance, priority, reclaim));
    return allowance;
  }

  private interface Complying {
    void reclaim(MappedAllowance allowance, long target);
  }

  private void comply(MappedAllowance allowance, long target) {
    asked.add(allowance.holder().name() + " " + target);
    allowance.unmap(allowance.mapped() - target);
  }

  private static ReclaimableHolder holder(
      MappedAllowance allowance, int priority, Complying reclaim) {
    return holder(allowance, priority, (Reclaim) target -> reclaim.reclaim(allowance, target));
  }

  private static ReclaimableHolder holder(
      MappedAllowance allowance, int priority, Reclaim reclaim) {
    return new ReclaimableHolder() {
      @Override
      public MappedAllowance allowance() {
        return allowance;
      }

      @Override
      public int reclaimPriority() {
        return priority;
      }

      @Override
      public void reclaimMapped(long targetBytes) {
        reclaim.accept(targetBytes);
      }
    };
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> void sneakyThrow(Throwable thrown) throws T {
    throw (T) thrown;
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
