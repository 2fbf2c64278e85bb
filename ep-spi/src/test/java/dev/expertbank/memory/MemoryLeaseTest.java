package dev.expertbank.memory;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.expertbank.memory.MemoryRefusal.InvalidRequest;
import dev.expertbank.memory.MemoryRefusal.TierExhausted;
import java.util.List;
import java.util.Map;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;

class MemoryLeaseTest {
  private final MemoryGovernor governor =
      new MemoryGovernor("cuda:0", Map.of(Tier.DEVICE, 100L, Tier.HOST, 50L));
  private final HolderId holder = governor.newHolder("bank");

  @Test
  void g1ANewClaimNeverTakesTheSumPastTheLimit() {
    reserve(60);
    assertThat(refusal(() -> reserve(41)))
        .isEqualTo(new TierExhausted(Tier.DEVICE, 41, 60, 100, 40, MemoryRole.WEIGHTS));
    reserve(40);
    assertThat(usage().available()).isZero();
    assertThat(refusal(() -> reserve(1))).isInstanceOf(TierExhausted.class);
    reserve(0);
  }

  @Test
  void g2ALeaseIsReleasedExactlyOnceHoweverOftenItIsClosed() {
    MemoryLease lease = reserve(60);
    MemoryLease other = reserve(10);
    lease.close();
    lease.close();
    assertThat(lease.bytes()).isZero();
    assertThat(usage().leased()).isEqualTo(10);
    assertThat(usage().reservations()).isEqualTo(2);
    assertThat(usage().releases()).isEqualTo(1);
    other.close();
    assertThat(governor.leakReport()).isEmpty();
  }

  @Test
  void g3LoweringTheLimitBelowUseRevokesNothingAndRefusesNewClaims() {
    MemoryLease lease = reserve(60);
    governor.setLimit(Tier.DEVICE, 30);
    assertThat(lease.bytes()).isEqualTo(60);
    assertThat(usage().oversubscribed()).isEqualTo(30);
    assertThat(usage().available()).isZero();
    assertThat(refusal(() -> reserve(1)))
        .isEqualTo(new TierExhausted(Tier.DEVICE, 1, 60, 30, 0, MemoryRole.WEIGHTS));
    assertThat(lease.shrink(40)).isEqualTo(40);
    assertThat(usage().oversubscribed()).isZero();
    assertThat(usage().available()).isEqualTo(10);
  }

  @Test
  void g4ARefusedClaimLeavesEveryLeaseAsItWas() {
    MemoryLease first = reserve(30);
    MemoryLease second = reserve(50);
    TierUsage before = usage();
    List<OutstandingClaim> claimsBefore = governor.outstanding();
    assertThat(refusal(() -> reserve(21))).isInstanceOf(TierExhausted.class);
    assertThat(refusal(() -> first.grow(21))).isInstanceOf(TierExhausted.class);
    assertThat(refusal(() -> second.reserveSibling(21))).isInstanceOf(TierExhausted.class);
    assertThat(usage()).isEqualTo(before);
    assertThat(governor.outstanding()).isEqualTo(claimsBefore);
  }

  @Test
  void aRefusalNamesTierRequestUseLimitRoomAndRole() {
    reserve(60);
    assertThatThrownBy(() -> reserve(41))
        .isInstanceOf(MemoryException.class)
        .hasMessage(
            "The device memory has no room for 41 bytes (role weights): 60 of 100 claimed, 40"
                + " available; raise the limit, or claim less.")
        .extracting("code")
        .isEqualTo("memory.tier-exhausted");
  }

  @Test
  void tiersAreCountedApart() {
    reserve(100);
    governor.reserve(Tier.HOST, 50, MemoryRole.WORKSPACE, holder);
    governor.reserve(Tier.DISK, Long.MAX_VALUE, MemoryRole.WORKSPACE, holder);
    assertThat(usage().leased()).isEqualTo(100);
    assertThat(governor.usage(Tier.HOST).leased()).isEqualTo(50);
    assertThat(refusal(() -> governor.reserve(Tier.DISK, 1, MemoryRole.WORKSPACE, holder)))
        .as("an unlimited tier refuses only what overflows")
        .isInstanceOf(TierExhausted.class);
  }

  @Test
  void growClaimsThenAddsAndShrinkGivesBackAtMostWhatThereIs() {
    MemoryLease lease = reserve(10);
    lease.grow(90);
    assertThat(lease.bytes()).isEqualTo(100);
    assertThat(refusal(() -> lease.grow(1))).isInstanceOf(TierExhausted.class);
    assertThat(lease.shrink(30)).isEqualTo(30);
    assertThat(lease.shrink(1000)).isEqualTo(70);
    assertThat(usage().leased()).isZero();
    assertThat(usage().releases()).as("an empty lease is still open").isZero();
  }

  @Test
  void aSiblingIsAClaimOfItsOwnUntilItIsAbsorbed() {
    MemoryLease lease = reserve(10);
    MemoryLease sibling = lease.reserveSibling(20);
    assertThat(sibling.holder()).isEqualTo(holder);
    assertThat(sibling.role()).isEqualTo(MemoryRole.WEIGHTS);
    assertThat(usage().leased()).isEqualTo(30);
    lease.absorbSibling(sibling);
    assertThat(lease.bytes()).isEqualTo(30);
    assertThat(usage().leased()).isEqualTo(30);
    sibling.close();
    assertThat(usage().leased()).as("an absorbed lease has nothing to give").isEqualTo(30);
    lease.close();
    assertThat(usage().leased()).isZero();
    assertThat(usage().releases()).isEqualTo(usage().reservations());
  }

  @Test
  void onlyAnotherOpenLeaseOfTheSameKindCanBeAbsorbed() {
    MemoryLease lease = reserve(10);
    MemoryLease otherRole = governor.reserve(Tier.DEVICE, 1, MemoryRole.KV_CACHE, holder);
    MemoryLease otherTier = governor.reserve(Tier.HOST, 1, MemoryRole.WEIGHTS, holder);
    MemoryLease otherHolder =
        governor.reserve(Tier.DEVICE, 1, MemoryRole.WEIGHTS, governor.newHolder("bank"));
    MemoryGovernor otherBooks = MemoryGovernor.unlimited("cuda:0");
    MemoryLease otherAuthority =
        otherBooks.reserve(Tier.DEVICE, 1, MemoryRole.WEIGHTS, otherBooks.newHolder("bank"));
    MemoryLease closed = reserve(1);
    closed.close();
    for (MemoryLease wrong :
        List.of(lease, otherRole, otherTier, otherHolder, otherAuthority, closed)) {
      assertThat(refusal(() -> lease.absorbSibling(wrong))).isInstanceOf(InvalidRequest.class);
    }
    assertThat(lease.bytes()).isEqualTo(10);
    assertThat(usage().leased()).isEqualTo(12);
  }

  @Test
  void aClosedLeaseCannotGrowAgain() {
    MemoryLease lease = reserve(10);
    lease.close();
    assertThat(refusal(() -> lease.grow(1))).isInstanceOf(InvalidRequest.class);
    assertThat(refusal(() -> lease.reserveSibling(1))).isInstanceOf(InvalidRequest.class);
    assertThat(lease.shrink(1)).isZero();
    assertThat(usage().leased()).isZero();
  }

  @Test
  void committedBytesAreRecordedPastTheLimitAndShowAsOversubscribed() {
    reserve(90);
    MemoryLease committed =
        governor.recordCommitted(Tier.DEVICE, 25, MemoryRole.ACTIVATION, holder);
    assertThat(usage().leased()).isEqualTo(115);
    assertThat(usage().oversubscribed()).isEqualTo(15);
    committed.close();
    assertThat(usage().oversubscribed()).isZero();
  }

  @Test
  void sumsAreCheckedForOverflow() {
    reserve(1);
    assertThat(
            refusal(
                () ->
                    governor.recordCommitted(
                        Tier.DEVICE, Long.MAX_VALUE, MemoryRole.WEIGHTS, holder)))
        .isInstanceOf(InvalidRequest.class);
    assertThat(usage().leased()).isEqualTo(1);
  }

  @Test
  void negativeBytesAreInvalidEverywhere() {
    MemoryLease lease = reserve(10);
    for (ThrowingCallable call :
        List.<ThrowingCallable>of(
            () -> reserve(-1),
            () -> lease.grow(-1),
            () -> lease.shrink(-1),
            () -> lease.reserveSibling(-1),
            () -> governor.setLimit(Tier.DEVICE, -1),
            () -> governor.recordCommitted(Tier.DEVICE, -1, MemoryRole.WEIGHTS, holder),
            () -> governor.reserveMappedAllowance(Tier.DEVICE, -1, MemoryRole.WEIGHTS, holder))) {
      assertThat(refusal(call)).isInstanceOf(InvalidRequest.class);
    }
    assertThat(lease.bytes()).isEqualTo(10);
    assertThat(governor.outstanding()).hasSize(1);
  }

  @Test
  void aHolderOfAnotherGovernorIsRefused() {
    HolderId stranger = MemoryGovernor.unlimited("cuda:0").newHolder("bank");
    assertThat(refusal(() -> governor.reserve(Tier.DEVICE, 1, MemoryRole.WEIGHTS, stranger)))
        .isInstanceOf(InvalidRequest.class);
    assertThat(governor.outstanding()).isEmpty();
  }

  private MemoryLease reserve(long bytes) {
    return governor.reserve(Tier.DEVICE, bytes, MemoryRole.WEIGHTS, holder);
  }

  private TierUsage usage() {
    return governor.usage(Tier.DEVICE);
  }

  static MemoryRefusal refusal(ThrowingCallable call) {
    return catchThrowableOfType(MemoryException.class, call).refusal();
  }
}
