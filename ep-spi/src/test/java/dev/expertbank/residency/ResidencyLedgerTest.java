package dev.expertbank.residency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.spi.qmoe.NonPageableReason;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

class ResidencyLedgerTest {
  private static final ExpertKey SMALL = new ExpertKey(0, 0);
  private static final ExpertKey LARGE = new ExpertKey(1, 3);

  private final ResidencyLayout layout =
      new ResidencyLayout(
          List.of(
              LayerLayout.pageable(4, 2, 90, 100),
              LayerLayout.pageable(4, 2, 300, 300),
              LayerLayout.nonPageable(4, 2, 50, new NonPageableReason.InlineTensor())));
  private final ResidencyLedger ledger = new ResidencyLedger(layout, 1000);

  /** Every transition that exists, with the state it starts from. */
  private final Map<ResidencyState, List<Consumer<ExpertKey>>> transitions =
      new EnumMap<>(
          Map.of(
              ResidencyState.COLD, List.of(ledger::startFill),
              ResidencyState.FILLING,
                  List.of(key -> ledger.publish(key, 0), ledger::failFill, ledger::quarantine),
              ResidencyState.RESIDENT, List.of(ledger::evict),
              ResidencyState.QUARANTINED, List.of(ledger::clearQuarantine)));

  private void bring(ExpertKey key, ResidencyState state) {
    if (state == ResidencyState.COLD) {
      return;
    }
    ledger.startFill(key);
    if (state == ResidencyState.RESIDENT) {
      ledger.publish(key, 0);
    } else if (state == ResidencyState.QUARANTINED) {
      ledger.quarantine(key);
    }
  }

  @Test
  void everyStateButColdIsCharged() {
    bring(new ExpertKey(0, 0), ResidencyState.FILLING);
    bring(new ExpertKey(0, 1), ResidencyState.RESIDENT);
    bring(LARGE, ResidencyState.QUARANTINED);
    assertThat(ledger.committedBytes()).isEqualTo(500);
    assertThat(ledger.quarantinedBytes()).isEqualTo(300);
    assertThat(ledger.committedSlots(100)).isEqualTo(2);
    assertThat(ledger.committedSlots(300)).isEqualTo(1);
    ledger.failFill(new ExpertKey(0, 0));
    ledger.evict(new ExpertKey(0, 1));
    ledger.clearQuarantine(LARGE);
    assertThat(ledger.committedBytes()).isZero();
    assertThat(ledger.quarantinedBytes()).isZero();
    assertThat(ledger.committedSlots(100)).isZero();
    assertThat(ledger.peakCommittedBytes()).isEqualTo(500);
  }

  @Test
  void transitionsFromAnotherStateThrowAndChangeNothing() {
    int expert = 0;
    for (ResidencyState state : ResidencyState.values()) {
      ExpertKey key = new ExpertKey(0, expert++);
      bring(key, state);
      long committed = ledger.committedBytes();
      transitions.forEach(
          (from, list) -> {
            if (from != state) {
              for (Consumer<ExpertKey> transition : list) {
                assertThatThrownBy(() -> transition.accept(key))
                    .as("%s from %s", from, state)
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining(state.name());
              }
            }
          });
      assertThat(ledger.state(key)).isEqualTo(state);
      assertThat(ledger.committedBytes()).isEqualTo(committed);
    }
  }

  @Test
  void aFillBeyondTheBudgetIsRefused() {
    ledger.setBudget(399);
    ledger.startFill(LARGE);
    assertThat(ledger.fits(SMALL)).isFalse();
    assertThatThrownBy(() -> ledger.startFill(SMALL))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("300 of 399");
    assertThat(ledger.state(SMALL)).isEqualTo(ResidencyState.COLD);
    ledger.setBudget(400);
    ledger.startFill(SMALL);
    assertThat(ledger.committedBytes()).isEqualTo(400);
  }

  @Test
  void aLowerBudgetRevokesNothingAndKeepsFillsOut() {
    bring(LARGE, ResidencyState.RESIDENT);
    ledger.setBudget(200);
    assertThat(ledger.state(LARGE)).isEqualTo(ResidencyState.RESIDENT);
    assertThat(ledger.fits(SMALL)).isFalse();
    ledger.evict(LARGE);
    assertThat(ledger.fits(SMALL)).isTrue();
  }

  @Test
  void aLayerThatIsNotPageableNeverFills() {
    assertThatThrownBy(() -> ledger.startFill(new ExpertKey(2, 0)))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("not pageable");
    assertThat(layout.pageableSlotBytes()).isEqualTo(1600);
  }

  @Test
  void theLedgerIsCompleteWhenAllThatIsPageableIsResident() {
    ledger.setBudget(layout.pageableSlotBytes());
    for (ExpertKey key : layout.keys().subList(0, 8)) {
      assertThat(ledger.isComplete()).isFalse();
      ledger.startFill(key);
      assertThat(ledger.isComplete()).isFalse();
      ledger.publish(key, 0);
    }
    assertThat(ledger.isComplete()).isTrue();
    ledger.evict(SMALL);
    assertThat(ledger.isComplete()).isFalse();
  }

  @Test
  void committedBytesStayWithinTheBudgetUnderRandomTransitions() {
    Random random = new Random(11);
    for (int step = 0; step < 20_000; step++) {
      ExpertKey key = layout.keys().get(random.nextInt(8));
      List<Consumer<ExpertKey>> possible = new ArrayList<>(transitions.get(ledger.state(key)));
      if (ledger.state(key) != ResidencyState.COLD || ledger.fits(key)) {
        possible.get(random.nextInt(possible.size())).accept(key);
      }
      long charged =
          layout.keys().stream()
              .filter(any -> ledger.state(any) != ResidencyState.COLD)
              .mapToLong(any -> layout.layer(any).slotBytes())
              .sum();
      assertThat(ledger.committedBytes()).isEqualTo(charged).isBetween(0L, 1000L);
      for (ResidencyState state : ResidencyState.values()) {
        assertThat(ledger.count(state)).isEqualTo(ledger.keysIn(state).size());
      }
      assertThat(ledger.residentBytes())
          .isEqualTo(
              ledger.keysIn(ResidencyState.RESIDENT).stream()
                  .mapToLong(any -> layout.layer(any).expertBytes())
                  .sum());
    }
    assertThat(ledger.peakCommittedBytes()).isEqualTo(1000);
  }

  @Test
  void keysHaveTheIndexTheyAreListedAt() {
    for (int index = 0; index < layout.keys().size(); index++) {
      assertThat(layout.index(layout.keys().get(index))).isEqualTo(index);
    }
    assertThat(layout.keys()).hasSize(12);
    assertThatThrownBy(() -> layout.index(new ExpertKey(1, 4)))
        .isInstanceOf(IndexOutOfBoundsException.class);
    assertThatThrownBy(() -> layout.index(new ExpertKey(3, 0)))
        .isInstanceOf(IndexOutOfBoundsException.class);
  }

  @Test
  void layersThatCannotBeAreRefused() {
    assertThatThrownBy(() -> LayerLayout.pageable(4, 5, 1, 1))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> LayerLayout.pageable(4, 0, 1, 1))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> LayerLayout.pageable(4, 2, 10, 9))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> new ResidencyLayout(List.of()))
        .isInstanceOf(IllegalArgumentException.class);
  }
}
