package dev.expertbank.memory;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import org.junit.jupiter.api.Test;

class MemoryGovernorsTest {
  @Test
  void everyoneWhoOpensADeviceSharesItsGovernorUntilTheLastCloses() {
    MemoryGovernor first;
    try (MemoryGovernors.Use use = MemoryGovernors.forDevice("test:0", Map.of(Tier.DEVICE, 10L))) {
      first = use.governor();
      try (MemoryGovernors.Use other = MemoryGovernors.forDevice("test:1")) {
        assertThat(other.governor()).isNotSameAs(first);
      }
      MemoryGovernors.Use again = MemoryGovernors.forDevice("test:0");
      assertThat(again.governor()).isSameAs(first);
      assertThat(again.governor().usage(Tier.DEVICE).limit()).isEqualTo(10);
      again.close();
      again.close();
      try (MemoryGovernors.Use third = MemoryGovernors.forDevice("test:0")) {
        assertThat(third.governor()).as("closing twice counts once").isSameAs(first);
      }
    }
    try (MemoryGovernors.Use fresh = MemoryGovernors.forDevice("test:0")) {
      assertThat(fresh.governor()).isNotSameAs(first);
    }
    assertThat(MemoryGovernors.leakReport()).isEmpty();
  }

  @Test
  void aLeakIsReportedAsATreeAndItsBytesStayCounted() {
    MemoryLease leaked;
    MappedAllowance allowance;
    try (MemoryGovernors.Use use = MemoryGovernors.forDevice("test:leak")) {
      MemoryGovernor governor = use.governor();
      HolderId bank = governor.newHolder("bank of session 1");
      HolderId state = governor.newHolder("state of session 1");
      leaked = governor.reserve(Tier.DEVICE, 40, MemoryRole.WORKSPACE, state);
      allowance = governor.reserveMappedAllowance(Tier.DEVICE, 60, MemoryRole.WEIGHTS, bank);
      allowance.tryMap(25);
      governor.reserve(Tier.HOST, 7, MemoryRole.WORKSPACE, state).close();
      assertThat(MemoryGovernors.leakReport()).as("not a leak while in use").isEmpty();
    }
    assertThat(MemoryGovernors.leakReport())
        .isEqualTo(
            """
            test:leak
              bank of session 1 (#1)
                device allowance, weights: 60 bytes, 25 mapped
              state of session 1 (#2)
                device lease, workspace: 40 bytes""");
    try (MemoryGovernors.Use next = MemoryGovernors.forDevice("test:leak")) {
      assertThat(next.governor().usage(Tier.DEVICE).claimed()).isEqualTo(100);
      leaked.close();
      allowance.unmap(25);
      allowance.close();
    }
    assertThat(MemoryGovernors.leakReport()).isEmpty();
  }

  @Test
  void aForgottenRegistrationIsALeakToo() {
    MemoryGovernor governor = MemoryGovernor.unlimited("test:2");
    MappedAllowance allowance =
        governor.reserveMappedAllowance(
            Tier.DEVICE, 0, MemoryRole.WEIGHTS, governor.newHolder("bank"));
    ReclaimRegistration registration =
        governor.registerReclaimable(
            new ReclaimableHolder() {
              @Override
              public MappedAllowance allowance() {
                return allowance;
              }

              @Override
              public int reclaimPriority() {
                return 0;
              }

              @Override
              public void reclaimMapped(long targetBytes) {}
            });
    allowance.close();
    assertThat(governor.leakReport())
        .isEqualTo("test:2\n  bank (#1)\n    registered as reclaimable");
    registration.close();
    assertThat(governor.leakReport()).isEmpty();
  }
}
