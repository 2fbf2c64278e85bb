package dev.expertbank.residency.simulation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.expertbank.residency.HeatTable;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyOutcome.WindowUse;
import dev.expertbank.residency.ResidencyPolicy;
import dev.expertbank.residency.policy.LruPolicy;
import dev.expertbank.residency.policy.WholeBankPolicy;
import dev.expertbank.residency.simulation.RouteTrace.Phase;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class ResidencySimulatorTest {
  private final ResidencyLayout one =
      new ResidencyLayout(List.of(LayerLayout.pageable(4, 1, 10, 10)));

  /** One layer, top 1: a decode window for each expert. */
  private static RouteTrace decode(int... experts) {
    int[][][] rows =
        Arrays.stream(experts).mapToObj(expert -> new int[][] {{expert}}).toArray(int[][][]::new);
    return new RouteTrace.Builder(List.of(4), List.of(1)).windowPerRow(Phase.DECODE, rows).build();
  }

  private SimulationResult run(RouteTrace trace, long budget, ResidencyPolicy policy) {
    return ResidencySimulator.run(trace, new ResidencySimulator.Bank(one, budget, policy));
  }

  @Test
  void fillsStartAfterTheFirstWindowAndHitFromTheThirdOn() {
    SimulationResult result = run(decode(0, 0, 0, 0), 40, new LruPolicy());
    assertThat(result.decode()).isEqualTo(new WindowUse(4, 2, 2, 20, 20));
    assertThat(result.moves().started()).isEqualTo(1);
    assertThat(result.bytesPerToken()).isEqualTo((20 + 10) / 4.0);
    assertThat(result.byteHitRate()).isEqualTo(0.5);
  }

  @Test
  void leastRecentlyUsedNeverHitsInAScanLongerThanTheBudget() {
    int[] scan = new int[400];
    Arrays.setAll(scan, i -> i % 4);
    assertThat(run(decode(scan), 20, new LruPolicy()).decode().hits()).isZero();
    // A stable half gets its share: 199 of 398 uses after the first two windows.
    assertThat(run(decode(scan), 20, new WholeBankPolicy(one)).decode().hits()).isEqualTo(198);
    // With room for all they are equal, but for the lag of the first fills.
    assertThat(run(decode(scan), 40, new LruPolicy()).decode().hits())
        .isEqualTo(run(decode(scan), 40, new WholeBankPolicy(one)).decode().hits() - 2);
  }

  @Test
  void theByteCapSpreadsTheFills() {
    ResidencySimulator.Bank bank =
        new ResidencySimulator.Bank(
            one, 40, 10, new HeatTable(one, HeatTable.Settings.DEFAULT), new WholeBankPolicy(one));
    assertThat(ResidencySimulator.run(decode(0, 0, 0), bank).moves().started()).isEqualTo(3);
    assertThat(run(decode(0, 0, 0), 40, new WholeBankPolicy(one)).moves().started()).isEqualTo(4);
  }

  @Test
  void phasesAreCountedApart() {
    RouteTrace trace =
        new RouteTrace.Builder(List.of(4), List.of(1))
            .window(Phase.PREFILL, new int[][] {{0}}, new int[][] {{1}})
            .window(Phase.DECODE, new int[][] {{0}})
            .window(Phase.DECODE, new int[][] {{0}})
            .build();
    SimulationResult result = run(trace, 40, new WholeBankPolicy(one));
    assertThat(result.prefill()).isEqualTo(new WindowUse(2, 0, 2, 0, 20));
    assertThat(result.decode()).isEqualTo(new WindowUse(2, 1, 1, 10, 10));
    assertThat(result.bytesPerToken()).isEqualTo((10 + 40) / 2.0);
  }

  @Test
  void aLayerSplitKeepsTheFirstLayersWholeOrNotAtAll() {
    ResidencyLayout three =
        new ResidencyLayout(
            List.of(
                LayerLayout.pageable(2, 1, 10, 10),
                LayerLayout.pageable(2, 1, 10, 10),
                LayerLayout.pageable(2, 1, 10, 10)));
    RouteTrace trace =
        new RouteTrace.Builder(List.of(2, 2, 2), List.of(1, 1, 1))
            .window(Phase.DECODE, new int[][] {{0}, {0}, {0}})
            .window(Phase.DECODE, new int[][] {{0}, {0}, {0}})
            .window(Phase.DECODE, new int[][] {{0}, {1}, {0}})
            .build();
    SimulationResult result =
        ResidencySimulator.run(
            trace, new ResidencySimulator.Bank(three, 50, new LayerSplitPolicy()));
    assertThat(result.moves().started()).isEqualTo(4);
    assertThat(result.decode().hits()).isEqualTo(2);
  }

  @Test
  void beladyKeepsWhatIsUsedSoonest() {
    // Room for one: 0 and 1 cannot both be kept over the middle.
    BeladyBound.Result room1 = BeladyBound.of(decode(0, 1, 1, 0), one, 10);
    assertThat(room1).isEqualTo(new BeladyBound.Result(40, 30, 4));
    assertThat(room1.byteHitRate()).isEqualTo(0.25);
    assertThat(room1.bytesPerToken()).isEqualTo(7.5);
    assertThat(BeladyBound.of(decode(0, 1, 1, 0), one, 20).readBytes()).isEqualTo(20);
    assertThat(BeladyBound.of(decode(0, 1, 1, 0), one, 0).readBytes()).isEqualTo(40);
    assertThat(BeladyBound.of(decode(0, 1, 1, 0), one, 15).readBytes()).isEqualTo(25);
  }

  @Test
  void beladyDoesNotCountWhatPrefillReads() {
    RouteTrace trace =
        new RouteTrace.Builder(List.of(4), List.of(1))
            .window(Phase.PREFILL, new int[][] {{0}}, new int[][] {{1}})
            .window(Phase.PREFILL, new int[][] {{1}})
            .window(Phase.DECODE, new int[][] {{0}})
            .build();
    assertThat(BeladyBound.of(trace, one, 10)).isEqualTo(new BeladyBound.Result(10, 0, 1));
  }

  @Test
  void beladyIsTheBestOfAllSchedulesAndBelowEveryPolicy() {
    Random random = new Random(5);
    for (int round = 0; round < 50; round++) {
      RouteTrace.Builder builder = new RouteTrace.Builder(List.of(4), List.of(2));
      for (int window = 0; window < 6; window++) {
        int first = random.nextInt(4);
        int second = (first + 1 + random.nextInt(3)) % 4;
        builder.window(Phase.DECODE, new int[][] {{first, second}});
      }
      RouteTrace trace = builder.build();
      ResidencyLayout two = new ResidencyLayout(List.of(LayerLayout.pageable(4, 2, 10, 10)));
      for (int slots = 0; slots <= 4; slots++) {
        long bound = BeladyBound.of(trace, two, slots * 10L).readBytes();
        assertThat(bound).isEqualTo(10L * fewestReads(trace, 0, 0, slots));
        for (ResidencyPolicy policy : List.of(new LruPolicy(), new WholeBankPolicy(two))) {
          SimulationResult result =
              ResidencySimulator.run(trace, new ResidencySimulator.Bank(two, slots * 10L, policy));
          assertThat(result.decode().missedBytes() + result.moves().startedBytes())
              .isGreaterThanOrEqualTo(bound);
        }
      }
    }
  }

  /** By trying everything: after each window, any of what is kept or was just used may be kept. */
  private static int fewestReads(RouteTrace trace, int window, int kept, int slots) {
    if (window == trace.windows().size()) {
      return 0;
    }
    int used = 0;
    for (int expert = 0; expert < 4; expert++) {
      used |= trace.windows().get(window).counts()[0][expert] > 0 ? 1 << expert : 0;
    }
    int best = Integer.MAX_VALUE;
    for (int keep = 0; keep < 16; keep++) {
      if ((keep & ~(kept | used)) == 0 && Integer.bitCount(keep) <= slots) {
        best = Math.min(best, fewestReads(trace, window + 1, keep, slots));
      }
    }
    return best + Integer.bitCount(used & ~kept);
  }

  @Test
  void rowsThatCannotBeAreRefusedWithTheirPlace() {
    RouteTrace.Builder builder = new RouteTrace.Builder(List.of(4, 4), List.of(2, 2));
    int[][] good = {{0, 1}, {2, 3}};
    assertRefused(builder, "row 1 has 1 layers, not 2", good, new int[][] {{0, 1}});
    assertRefused(builder, "row 0, layer 1: 1 experts, not 2", new int[][] {{0, 1}, {2}});
    assertRefused(builder, "row 0, layer 0, column 1: expert 4 of 4", new int[][] {{0, 4}, {2, 3}});
    assertRefused(builder, "row 0, layer 0, column 0: expert -1", new int[][] {{-1, 0}, {2, 3}});
    assertRefused(
        builder, "layer 1, column 1: expert 2 is there twice", new int[][] {{0, 1}, {2, 2}});
    assertRefused(builder, "without rows");
    assertThatThrownBy(() -> builder.windowPerRow(Phase.DECODE, good, new int[][] {{0, 1}, {9, 3}}))
        .hasMessageContaining("row 1, layer 1, column 0: expert 9");
    assertThat(builder.build().windows()).hasSize(1);
  }

  private static void assertRefused(RouteTrace.Builder builder, String why, int[][]... rows) {
    assertThatThrownBy(() -> builder.window(Phase.DECODE, rows))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining(why);
  }

  @Test
  void aTraceOfAnotherModelIsRefused() {
    RouteTrace trace =
        new RouteTrace.Builder(List.of(4), List.of(2))
            .window(Phase.DECODE, new int[][] {{0, 1}})
            .build();
    assertThatThrownBy(() -> run(trace, 10, new LruPolicy()))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> BeladyBound.of(trace, one, 10))
        .isInstanceOf(IllegalArgumentException.class);
  }
}
