package dev.expertbank.state;

import static dev.expertbank.state.StateCacheFormat.F32;
import static dev.expertbank.state.StateCacheFormat.FP4_E2M1_BLOCK32;
import static dev.expertbank.state.StateCacheFormat.FP8_E4M3_BLOCK64;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.util.Arrays;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class CsaStateGroupDescriptorTest {
  private static final CsaStateGroupDescriptor RATIO_4 =
      new CsaStateGroupDescriptor(4, FP8_E4M3_BLOCK64, 8, 64, 32, 128, 0, 1, 7, true, true);
  private static final CsaStateGroupDescriptor RATIO_128 =
      new CsaStateGroupDescriptor(128, F32, 8, 64, 64, 0, 0, 1, 7, true, true);

  /** A group with exactly one thing wrong, and the refusal it must meet. */
  record Wrong(CsaStateGroupDescriptor descriptor, StateRefusal refusal) {}

  @Test
  void whatBothRatiosSupportIsAccepted() {
    assertThat(RATIO_4.validate()).isEmpty();
    assertThat(RATIO_128.validate()).isEmpty();
    assertThat(with(RATIO_128, FP8_E4M3_BLOCK64).validate()).isEmpty();
    assertThat(RATIO_128.validateC1Runtime()).isEmpty();
  }

  static Stream<Wrong> wrongGroups() {
    return Stream.of(
        new Wrong(of(8, F32, 8, 64, 32, 0, 1, true, true), new StateRefusal.UnsupportedRatio(8)),
        new Wrong(of(0, F32, 8, 64, 32, 0, 1, true, true), new StateRefusal.UnsupportedRatio(0)),
        new Wrong(
            of(128, F32, 0, 64, 32, 0, 1, true, true), new StateRefusal.InvalidHeadGeometry(0, 64)),
        new Wrong(
            of(128, F32, 8, 0, 0, 0, 1, true, true), new StateRefusal.InvalidHeadGeometry(8, 0)),
        new Wrong(
            of(128, F32, 8, 64, 65, 0, 1, true, true), new StateRefusal.RopeExceedsHeadDim(65, 64)),
        new Wrong(
            of(128, F32, 8, 64, -1, 0, 1, true, true), new StateRefusal.RopeExceedsHeadDim(-1, 64)),
        new Wrong(
            of(128, F32, 8, 64, 32, 0, 2, true, true), new StateRefusal.MultiDeviceAmbiguity(2)),
        new Wrong(
            of(128, F32, 8, 64, 32, 0, 0, true, true), new StateRefusal.MultiDeviceAmbiguity(0)),
        new Wrong(
            of(128, F32, 8, 64, 32, 0, 1, false, true),
            new StateRefusal.MissingStateEdge(6, "compressed state")),
        new Wrong(
            of(128, F32, 8, 64, 32, 0, 1, true, false),
            new StateRefusal.MissingStateEdge(7, "carry state")),
        new Wrong(
            of(4, F32, 8, 64, 32, 128, 1, true, true),
            new StateRefusal.Ratio4RequiresFp8Cache(F32)),
        new Wrong(
            of(4, FP4_E2M1_BLOCK32, 8, 64, 32, 128, 1, true, true),
            new StateRefusal.Ratio4RequiresFp8Cache(FP4_E2M1_BLOCK32)),
        new Wrong(
            of(4, FP8_E4M3_BLOCK64, 8, 64, 32, 64, 1, true, true),
            new StateRefusal.Ratio4RequiresIndexHeadDim128(64)),
        new Wrong(
            of(128, FP4_E2M1_BLOCK32, 8, 64, 32, 0, 1, true, true),
            new StateRefusal.Ratio128RejectsFp4()));
  }

  @ParameterizedTest
  @MethodSource("wrongGroups")
  void oneWrongPropertyIsRefusedByItsName(Wrong wrong) {
    assertThat(wrong.descriptor().validate()).contains(wrong.refusal());
    assertThat(wrong.descriptor().validateC1Runtime()).contains(wrong.refusal());
    assertThat(wrong.refusal().code()).startsWith("state.");
    assertThat(wrong.refusal().message()).endsWith(".");
  }

  @Test
  void theFirstReasonInTheFixedOrderIsGiven() {
    assertThat(
            Stream.of(
                    of(5, F32, 0, 64, 65, 0, 2, false, false),
                    of(4, F32, 0, 64, 65, 0, 2, false, false),
                    of(4, F32, 8, 64, 65, 0, 2, false, false),
                    of(4, F32, 8, 64, 32, 0, 2, false, false),
                    of(4, F32, 8, 64, 32, 0, 1, false, false),
                    of(4, F32, 8, 64, 32, 0, 1, true, false),
                    of(4, F32, 8, 64, 32, 0, 1, true, true),
                    of(4, FP8_E4M3_BLOCK64, 8, 64, 32, 0, 1, true, true))
                .map(group -> group.validate().orElseThrow().getClass().getSimpleName()))
        .containsExactly(
            "UnsupportedRatio",
            "InvalidHeadGeometry",
            "RopeExceedsHeadDim",
            "MultiDeviceAmbiguity",
            "MissingStateEdge",
            "MissingStateEdge",
            "Ratio4RequiresFp8Cache",
            "Ratio4RequiresIndexHeadDim128");
    assertThat(of(4, F32, 8, 64, 32, 0, 1, false, false).validate())
        .as("input 6 before input 7")
        .contains(new StateRefusal.MissingStateEdge(6, "compressed state"));
  }

  @Test
  void theC1RuntimeRunsRatio128Only() {
    assertThat(RATIO_4.validateC1Runtime()).contains(new StateRefusal.UnsupportedC1Ratio(4));
  }

  @Test
  void everyFormatIsParsedFromItsIdAndNoneMeansF32() {
    for (StateCacheFormat format : StateCacheFormat.values()) {
      assertThat(StateCacheFormat.parse(format.toString())).isEqualTo(format);
    }
    assertThat(Arrays.stream(StateCacheFormat.values()).map(StateCacheFormat::toString))
        .containsExactly("f32", "fp8_e4m3_block64", "fp4_e2m1_block32");
    assertThat(StateCacheFormat.parse(null)).isEqualTo(F32);
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "F32", "fp8", "fp8_e4m3_block64 "})
  void anyOtherFormatIsRefusedWithTheListOfTheKnown(String name) {
    StateGroupException refused =
        catchThrowableOfType(StateGroupException.class, () -> StateCacheFormat.parse(name));
    assertThat(refused.refusal()).isEqualTo(new StateRefusal.UnknownCacheFormat(name));
    assertThat(refused).hasMessageContaining("f32, fp8_e4m3_block64, fp4_e2m1_block32");
    assertThat(refused.code()).isEqualTo("state.cache-format");
  }

  private static CsaStateGroupDescriptor with(
      CsaStateGroupDescriptor group, StateCacheFormat format) {
    return new CsaStateGroupDescriptor(
        group.ratio(),
        format,
        group.numHeads(),
        group.headDim(),
        group.qkRopeHeadDim(),
        group.indexHeadDim(),
        group.deviceOrdinal(),
        group.deviceCount(),
        group.requestId(),
        group.hasCompressedState(),
        group.hasCarryState());
  }

  private static CsaStateGroupDescriptor of(
      int ratio,
      StateCacheFormat format,
      int heads,
      int headDim,
      int rope,
      int indexDim,
      int devices,
      boolean compressed,
      boolean carry) {
    return new CsaStateGroupDescriptor(
        ratio, format, heads, headDim, rope, indexDim, 0, devices, 7, compressed, carry);
  }
}
