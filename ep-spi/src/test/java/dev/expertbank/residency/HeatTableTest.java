package dev.expertbank.residency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.util.Arrays;
import java.util.List;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.Test;

class HeatTableTest {
  private static final Offset<Double> EXACT = within(1e-12);

  private final ResidencyLayout layout =
      new ResidencyLayout(List.of(LayerLayout.pageable(4, 1, 10, 10)));
  private final Windows windows = new Windows(layout);

  private void add(HeatTable heat, int... rows) {
    windows.reset(1);
    for (int expert : rows) {
      windows.routeEverywhere(expert);
    }
    heat.add(windows.read(), 0);
  }

  @Test
  void heatIsTheAverageUseInWhichOlderWindowsFade() {
    HeatTable heat = new HeatTable(layout, new HeatTable.Settings(0.5, 100, 1));
    add(heat, 0);
    assertThat(heat.usesPerRow()).containsExactly(new double[] {1, 0, 0, 0}, EXACT);
    add(heat, 1);
    // Weights 0.5 and 1.
    assertThat(heat.usesPerRow()).containsExactly(new double[] {1 / 3.0, 2 / 3.0, 0, 0}, EXACT);
    add(heat, 1, 2);
    // The weight of 1.5 fades to 0.375, and two rows come on top.
    assertThat(heat.usesPerRow())
        .containsExactly(new double[] {0.125 / 2.375, (0.25 + 1) / 2.375, 1 / 2.375, 0}, EXACT);
  }

  @Test
  void everyLongWindowHasTheSameWeight() {
    HeatTable once = new HeatTable(layout, new HeatTable.Settings(0.9, 2, 1));
    add(once, 3);
    add(once, 0, 1);
    HeatTable longer = new HeatTable(layout, new HeatTable.Settings(0.9, 2, 1));
    add(longer, 3);
    add(longer, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1);
    assertThat(longer.usesPerRow()).containsExactly(once.usesPerRow(), EXACT);
    assertThat(longer.usesPerRow()[3]).isGreaterThan(0.2);
  }

  @Test
  void aLongPromptDoesNotDrownWhatDecodingHasShown() {
    HeatTable heat = new HeatTable(layout, HeatTable.Settings.DEFAULT);
    for (int token = 0; token < 200; token++) {
      add(heat, 0);
    }
    int[] prompt = new int[4000];
    Arrays.setAll(prompt, row -> 1 + row % 3);
    add(heat, prompt);
    double[] uses = heat.usesPerRow();
    assertThat(uses[0]).isGreaterThan(uses[1]).isGreaterThan(0.5);
  }

  @Test
  void nothingIsUsedBeforeTheFirstWindow() {
    assertThat(new HeatTable(layout, HeatTable.Settings.DEFAULT).usesPerRow())
        .containsOnly(new double[] {0}, EXACT);
  }

  @Test
  void aProfileCountsForItsWeight() {
    HeatProfile profile = new HeatProfile(layout, new double[] {1, 0, 0, 0});
    HeatTable heat = new HeatTable(layout, new HeatTable.Settings(1, 100, 3), profile);
    assertThat(heat.profile()).isEqualTo(profile);
    add(heat, 1);
    assertThat(heat.usesPerRow()).containsExactly(new double[] {0.75, 0.25, 0, 0}, EXACT);
  }

  @Test
  void settingsThatCannotBeAreRefused() {
    for (double[] bad :
        new double[][] {{0, 1, 1}, {1.1, 1, 1}, {Double.NaN, 1, 1}, {1, 0.5, 1}, {1, 1, 0}}) {
      assertThatThrownBy(() -> new HeatTable.Settings(bad[0], bad[1], bad[2]))
          .isInstanceOf(IllegalArgumentException.class);
    }
  }
}
