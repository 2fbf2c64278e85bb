package dev.expertbank.qmoe.state;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.memory.MemoryGovernor;
import dev.expertbank.memory.Tier;
import dev.expertbank.state.CsaStateGroupDescriptor;
import dev.expertbank.state.StateBuffer;
import dev.expertbank.state.StateBufferRequest;
import dev.expertbank.state.StateByteClass;
import dev.expertbank.state.StateCacheFormat;
import dev.expertbank.state.StateCharge;
import dev.expertbank.state.StateLedger;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class HostStateBuffersTest {
  private static final CsaStateGroupDescriptor GROUP =
      new CsaStateGroupDescriptor(128, StateCacheFormat.F32, 8, 64, 64, 0, 0, 1, 1, true, true);

  @Test
  void aChargeHoldsZeroedAlignedMemoryThatKeepsWhatIsWritten() {
    MemoryGovernor governor = new MemoryGovernor("host", Map.of(Tier.HOST, 5000L));
    StateLedger ledger = new StateLedger(governor, Tier.HOST, 0, new HostStateBuffers());
    List<StateBufferRequest> requests =
        List.of(
            new StateBufferRequest(StateByteClass.COMPRESSED, "compressed", 4096),
            new StateBufferRequest(StateByteClass.SCRATCH, "nothing", 0));
    try (StateCharge charge = ledger.charge(GROUP, requests)) {
      for (StateBuffer buffer : charge.buffers()) {
        assertThat(buffer.address() % 64).isZero();
        MemorySegment memory = at(buffer);
        assertThat(memory.toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
        memory.fill((byte) 7);
      }
      assertThat(at(charge.buffers().getFirst()).toArray(ValueLayout.JAVA_BYTE)).containsOnly(7);
      assertThat(governor.usage(Tier.HOST).leased()).isEqualTo(4097);
    }
    assertThat(governor.leakReport()).isEmpty();
  }

  @Test
  void whatTheMachineCannotAllocateIsRefusedAndGivenBack() {
    StateLedger ledger = StateLedger.unlimited(Tier.HOST, 0, new HostStateBuffers());
    List<StateBufferRequest> requests =
        List.of(
            new StateBufferRequest(StateByteClass.COMPRESSED, "small", 4096),
            new StateBufferRequest(StateByteClass.CARRY, "endless", Long.MAX_VALUE / 2));
    assertThatThrownBy(() -> ledger.charge(GROUP, requests))
        .extracting("code")
        .isEqualTo("memory.allocation-failed");
    assertThat(ledger.deviceUsage().leased()).isZero();
  }

  @SuppressWarnings("restricted")
  private static MemorySegment at(StateBuffer buffer) {
    return MemorySegment.ofAddress(buffer.address()).reinterpret(buffer.bytes());
  }
}
