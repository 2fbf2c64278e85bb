package dev.expertbank.memory;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

class AutoBudgetTest {
  @Test
  void theBudgetIsWhatIsFreeLessTheReserve() {
    assertThat(AutoBudget.of(100, 30, 1000))
        .isEqualTo(new AutoBudget(70, "budget 70 bytes: 100 bytes free less 30 reserved is 70"));
  }

  @Test
  void theBudgetIsNeverMoreThanCanBeUsed() {
    assertThat(AutoBudget.of(100, 30, 50))
        .isEqualTo(
            new AutoBudget(
                50,
                "budget 50 bytes: 100 bytes free less 30 reserved is 70, of which no more than 50"
                    + " can be used"));
  }

  @Test
  void aReserveThatIsNotFreeLeavesABudgetOfZero() {
    assertThat(AutoBudget.of(100, 130, 50))
        .isEqualTo(
            new AutoBudget(0, "budget 0 bytes: 100 bytes free is less than the reserve of 130"));
  }

  @Test
  void negativeNumbersAreRefused() {
    assertThatThrownBy(() -> AutoBudget.of(-1, 0, 0)).isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> AutoBudget.of(0, -1, 0)).isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> AutoBudget.of(0, 0, -1)).isInstanceOf(IllegalArgumentException.class);
  }
}
