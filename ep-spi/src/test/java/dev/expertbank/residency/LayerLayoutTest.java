package dev.expertbank.residency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.junit.jupiter.api.Test;

class LayerLayoutTest {
  @Test
  void aSlotHoldsEveryTensorAtItsAlignmentAndIsRoundedUpOnce() {
    LayerLayout layer = LayerLayout.packed(4, 2, List.of(4000L, 1L, 64L), 4096);

    assertThat(layer.expertBytes()).isEqualTo(4065);
    // 4032 + 64 + 64 = 4160: one granule would hold the bytes, but not their padding.
    assertThat(layer.slotBytes()).isEqualTo(8192);
    assertThat(layer.isPageable()).isTrue();
  }

  @Test
  void whatFitsExactlyIsNotPadded() {
    assertThat(LayerLayout.packed(1, 1, List.of(4096L), 4096).slotBytes()).isEqualTo(4096);
    assertThat(LayerLayout.packed(1, 1, List.of(4097L), 4096).slotBytes()).isEqualTo(8192);
  }

  @Test
  void sizesThatNoLongHoldsAreRefused() {
    assertThatThrownBy(() -> LayerLayout.packed(1, 1, List.of(Long.MAX_VALUE), 4096))
        .isInstanceOf(ArithmeticException.class);
    assertThatThrownBy(() -> LayerLayout.packed(1, 1, List.of(Long.MAX_VALUE / 2 + 1, 1L << 62), 1))
        .isInstanceOf(ArithmeticException.class);
  }
}
