package dev.expertbank.qmoe.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.SplittableRandom;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

class AddressRangesTest {
  private static final long START = 1000;
  private static final long BYTES = 64;

  @Test
  void partsAreTakenFromTheStartAndTakenAgain() {
    AddressRanges ranges = new AddressRanges(START, BYTES);
    assertThat(ranges.take(16)).hasValue(START);
    assertThat(ranges.take(48)).hasValue(START + 16);
    assertThat(ranges.take(1)).isEmpty();
    ranges.giveBack(START, 16);
    assertThat(ranges.take(17)).isEmpty();
    assertThat(ranges.take(8)).hasValue(START);
    assertThat(ranges.take(8)).hasValue(START + 8);
    assertThat(ranges.isWhole()).isFalse();
  }

  @Test
  void neighboursAreJoinedInEveryOrder() {
    int[][] orders = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int[] order : orders) {
      AddressRanges ranges = new AddressRanges(START, 48);
      for (int i = 0; i < 3; i++) {
        assertThat(ranges.take(16)).hasValue(START + 16L * i);
      }
      for (int i : order) {
        assertThat(ranges.isWhole()).isFalse();
        ranges.giveBack(START + 16L * i, 16);
      }
      assertThat(ranges.isWhole()).isTrue();
      assertThat(ranges.take(48)).hasValue(START);
    }
  }

  @Test
  void whateverIsTakenAndGivenBackNoAddressIsTakenTwiceOrLost() {
    SplittableRandom random = new SplittableRandom(1);
    AddressRanges ranges = new AddressRanges(START, BYTES);
    TreeMap<Long, Long> taken = new TreeMap<>();
    for (int step = 0; step < 10_000; step++) {
      long wanted = random.nextLong(1, 9);
      if (random.nextBoolean()) {
        ranges
            .take(wanted)
            .ifPresent(
                address -> {
                  var before = taken.lowerEntry(address + wanted);
                  assertThat(before == null || before.getKey() + before.getValue() <= address)
                      .isTrue();
                  taken.put(address, wanted);
                });
      } else if (!taken.isEmpty()) {
        var first = taken.ceilingEntry(START + random.nextLong(BYTES));
        var given = first == null ? taken.firstEntry() : first;
        taken.remove(given.getKey());
        ranges.giveBack(given.getKey(), given.getValue());
      }
      assertThat(ranges.isWhole()).isEqualTo(taken.isEmpty());
    }
  }
}
