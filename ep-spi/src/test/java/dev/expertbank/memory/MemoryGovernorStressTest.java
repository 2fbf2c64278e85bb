package dev.expertbank.memory;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CyclicBarrier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The invariants under random work: by one thread with a model beside it, and by many threads. */
@Timeout(120)
class MemoryGovernorStressTest {
  private static final long LIMIT = 1000;

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3})
  void tenThousandRandomOperationsKeepTheInvariantsAfterEachOne(long seed) {
    MemoryGovernor governor = new MemoryGovernor("cuda:0", Map.of(Tier.DEVICE, LIMIT));
    Random random = new Random(seed);
    List<MemoryLease> leases = new ArrayList<>();
    Map<MemoryLease, Long> expected = new HashMap<>();
    List<Session> sessions = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      sessions.add(new Session(governor, "session " + i, i % 2, random.nextLong()));
    }
    HolderId holder = governor.newHolder("scratch");
    int refused = 0;
    for (int step = 0; step < 10_000; step++) {
      TierUsage before = governor.usage(Tier.DEVICE);
      List<OutstandingClaim> claimsBefore = governor.outstanding();
      try {
        if (random.nextBoolean()) {
          sessions.get(random.nextInt(sessions.size())).step();
        } else {
          leaseStep(governor, holder, random, leases, expected);
        }
      } catch (MemoryException e) {
        refused++;
        if (e.refusal() instanceof MemoryRefusal.TierExhausted) {
          assertThat(governor.usage(Tier.DEVICE)).isEqualTo(before);
          assertThat(governor.outstanding()).isEqualTo(claimsBefore);
        }
      }
      check(governor);
      leases.forEach(lease -> assertThat(lease.bytes()).isEqualTo(expected.get(lease)));
      sessions.forEach(Session::check);
    }
    assertThat(refused).as("the scenario is a tight one").isBetween(500, 9000);
    assertThat(governor.mappedGrowthMetrics().movedBytes()).isPositive();
    leases.forEach(MemoryLease::close);
    sessions.forEach(Session::close);
    TierUsage end = governor.usage(Tier.DEVICE);
    assertThat(end.claimed()).isZero();
    assertThat(end.reservations()).isEqualTo(end.releases());
    assertThat(end.unmapUnderflow()).isZero();
    assertThat(governor.leakReport()).isEmpty();
  }

  private static void leaseStep(
      MemoryGovernor governor,
      HolderId holder,
      Random random,
      List<MemoryLease> leases,
      Map<MemoryLease, Long> expected) {
    long bytes = random.nextLong(120);
    int operation = leases.isEmpty() ? 0 : random.nextInt(6);
    if (operation == 0) {
      MemoryLease lease = governor.reserve(Tier.DEVICE, bytes, MemoryRole.WORKSPACE, holder);
      leases.add(lease);
      expected.put(lease, bytes);
      return;
    }
    MemoryLease lease = leases.get(random.nextInt(leases.size()));
    switch (operation) {
      case 1 -> {
        lease.grow(bytes);
        expected.merge(lease, bytes, Long::sum);
      }
      case 2 -> expected.merge(lease, -lease.shrink(bytes), Long::sum);
      case 3 -> {
        MemoryLease sibling = lease.reserveSibling(bytes);
        leases.add(sibling);
        expected.put(sibling, bytes);
      }
      case 4 -> {
        MemoryLease sibling = leases.get(random.nextInt(leases.size()));
        lease.absorbSibling(sibling);
        expected.merge(lease, expected.getOrDefault(sibling, 0L), Long::sum);
        leases.remove(sibling);
      }
      default -> {
        lease.close();
        leases.remove(lease);
      }
    }
  }

  @Test
  void twoSessionsThatShareADeviceGrowAtEachOthersCostAndNeverPassItsLimit() throws Exception {
    MemoryGovernor governor = new MemoryGovernor("cuda:0", Map.of(Tier.DEVICE, LIMIT));
    List<Session> sessions =
        List.of(
            new Session(governor, "session 0", 0, 11),
            new Session(governor, "session 1", 0, 12),
            new Session(governor, "session 2", 1, 13));
    List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
    CyclicBarrier start = new CyclicBarrier(sessions.size() + 1);
    List<Thread> threads = new ArrayList<>();
    for (Session session : sessions) {
      threads.add(
          Thread.ofPlatform()
              .start(
                  () -> {
                    try {
                      start.await();
                      for (int step = 0; step < 10_000; step++) {
                        session.stepOrRefused();
                        check(governor);
                      }
                    } catch (Throwable e) {
                      failures.add(e);
                    }
                  }));
    }
    start.await();
    for (Thread thread : threads) {
      thread.join();
    }
    assertThat(failures).isEmpty();
    assertThat(governor.mappedGrowthMetrics().movedBytes()).isPositive();
    sessions.forEach(Session::close);
    assertThat(governor.usage(Tier.DEVICE).claimed()).isZero();
    assertThat(governor.usage(Tier.DEVICE).unmapUnderflow()).isZero();
    assertThat(governor.leakReport()).isEmpty();
  }

  @Test
  void oneLeaseAndOneAllowanceUsedByManyThreadsLoseNoByte() throws Exception {
    MemoryGovernor governor = MemoryGovernor.unlimited("cuda:0");
    HolderId holder = governor.newHolder("bank");
    MemoryLease lease = governor.reserve(Tier.DEVICE, 0, MemoryRole.WEIGHTS, holder);
    MappedAllowance allowance =
        governor.reserveMappedAllowance(Tier.DEVICE, LIMIT, MemoryRole.WEIGHTS, holder);
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      threads.add(
          Thread.ofPlatform()
              .start(
                  () -> {
                    for (int step = 0; step < 50_000; step++) {
                      lease.grow(3);
                      lease.shrink(2);
                      if (allowance.tryMap(5)) {
                        allowance.unmap(5);
                      }
                    }
                  }));
    }
    for (Thread thread : threads) {
      thread.join();
    }
    assertThat(lease.bytes()).isEqualTo(200_000);
    assertThat(governor.usage(Tier.DEVICE).leased()).isEqualTo(200_000);
    assertThat(allowance.mapped()).isZero();
    assertThat(governor.usage(Tier.DEVICE).unmapUnderflow()).isZero();
  }

  private static void check(MemoryGovernor governor) {
    TierUsage usage = governor.usage(Tier.DEVICE);
    assertThat(usage.claimed()).isBetween(0L, LIMIT);
    assertThat(usage.held()).isBetween(0L, usage.claimed());
    assertThat(usage.growthReserved()).isNotNegative();
    assertThat(usage.available()).isEqualTo(LIMIT - usage.claimed());
    long claims =
        governor.outstanding().stream()
            .peek(claim -> assertThat(claim.bytes()).isNotNegative())
            .mapToLong(OutstandingClaim::bytes)
            .sum();
    // The two looks are taken one after the other, so with other threads only the bound is exact.
    assertThat(claims).isLessThanOrEqualTo(LIMIT);
  }

  /**
   * A bank with slots of ten bytes, which it counts itself: its own lock guards them, and another
   * session's growth may take some.
   */
  private static final class Session implements ReclaimableHolder, AutoCloseable {
    private static final long SLOT = 10;

    private final MemoryGovernor governor;
    private final MappedAllowance allowance;
    private final ReclaimRegistration registration;
    private final int priority;
    private final Random random;
    private long slots;

    Session(MemoryGovernor governor, String name, int priority, long seed) {
      this.governor = governor;
      this.priority = priority;
      this.random = new Random(seed);
      this.allowance =
          governor.reserveMappedAllowance(
              Tier.DEVICE, 200, MemoryRole.WEIGHTS, governor.newHolder(name));
      this.registration = governor.registerReclaimable(this);
    }

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
      synchronized (this) {
        if (random.nextInt(8) == 0) {
          throw new IllegalStateException("a run is in flight");
        }
        int stubborn = random.nextInt(8) == 0 ? 1 : 0;
        while (slots > stubborn && slots * SLOT > targetBytes) {
          free(1);
        }
      }
    }

    private void free(long count) {
      slots -= count;
      assertThat(allowance.unmap(count * SLOT)).isEqualTo(count * SLOT);
    }

    void stepOrRefused() {
      try {
        step();
      } catch (MemoryException e) {
        assertThat(e.code()).isIn("memory.tier-exhausted", "memory.capacity-unavailable");
      }
      check();
    }

    void step() {
      switch (random.nextInt(5)) {
        case 0 -> grow(1 + random.nextInt(20));
        case 1 -> {
          synchronized (this) {
            if (allowance.tryMap(SLOT)) {
              slots++;
            }
          }
        }
        case 2 -> {
          synchronized (this) {
            free(Math.min(slots, random.nextInt(10)));
          }
        }
        case 3 -> allowance.lowerLimit(random.nextInt(60));
        default -> allowance.raiseLimit(random.nextInt(60));
      }
    }

    private void grow(long count) {
      // Not under this session's lock: another session may be asking it to reclaim.
      try (MappedGrowthGrant grant = governor.prepareMappedGrowth(allowance, count * SLOT)) {
        synchronized (this) {
          long used = random.nextLong(count + 1);
          grant.commit(used * SLOT);
          slots += used;
        }
      }
    }

    synchronized void check() {
      assertThat(allowance.mapped()).isEqualTo(slots * SLOT);
    }

    @Override
    public void close() {
      registration.close();
      synchronized (this) {
        free(slots);
      }
      allowance.close();
    }
  }
}
