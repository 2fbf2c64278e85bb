package dev.expertbank.state;

import java.util.Optional;

/**
 * The properties of one state group, which decide whether it can run; the name of the model does
 * not.
 *
 * @param ratio how many tokens are compressed into one entry
 * @param qkRopeHeadDim the part of the head dimension that is rotated
 * @param indexHeadDim the width of the index that selects entries; used by ratio 4
 * @param deviceOrdinal the device that holds the state
 * @param deviceCount how many devices the group was given
 * @param requestId the request that owns the state
 * @param hasCompressedState whether input 6 is connected
 * @param hasCarryState whether input 7 is connected
 */
public record CsaStateGroupDescriptor(
    int ratio,
    StateCacheFormat cacheFormat,
    int numHeads,
    int headDim,
    int qkRopeHeadDim,
    int indexHeadDim,
    int deviceOrdinal,
    int deviceCount,
    long requestId,
    boolean hasCompressedState,
    boolean hasCarryState) {

  /**
   * Why this group cannot run, the first reason in a fixed order: ratio, head geometry, rotary
   * dimension, devices, state inputs 6 and 7, then what the ratio demands of format and index.
   */
  public Optional<StateRefusal> validate() {
    if (ratio != 4 && ratio != 128) {
      return refuse(new StateRefusal.UnsupportedRatio(ratio));
    }
    if (numHeads <= 0 || headDim <= 0) {
      return refuse(new StateRefusal.InvalidHeadGeometry(numHeads, headDim));
    }
    if (qkRopeHeadDim < 0 || qkRopeHeadDim > headDim) {
      return refuse(new StateRefusal.RopeExceedsHeadDim(qkRopeHeadDim, headDim));
    }
    if (deviceCount != 1) {
      return refuse(new StateRefusal.MultiDeviceAmbiguity(deviceCount));
    }
    if (!hasCompressedState) {
      return refuse(new StateRefusal.MissingStateEdge(6, "compressed state"));
    }
    if (!hasCarryState) {
      return refuse(new StateRefusal.MissingStateEdge(7, "carry state"));
    }
    return ratio == 4 ? validateRatio4() : validateRatio128();
  }

  /**
   * Why the C1 runtime cannot run this group: as {@link #validate}, and then it must have ratio
   * 128.
   */
  public Optional<StateRefusal> validateC1Runtime() {
    Optional<StateRefusal> refusal = validate();
    if (refusal.isEmpty() && ratio != 128) {
      return refuse(new StateRefusal.UnsupportedC1Ratio(ratio));
    }
    return refusal;
  }

  private Optional<StateRefusal> validateRatio4() {
    if (cacheFormat != StateCacheFormat.FP8_E4M3_BLOCK64) {
      return refuse(new StateRefusal.Ratio4RequiresFp8Cache(cacheFormat));
    }
    if (indexHeadDim != 128) {
      return refuse(new StateRefusal.Ratio4RequiresIndexHeadDim128(indexHeadDim));
    }
    return Optional.empty();
  }

  private Optional<StateRefusal> validateRatio128() {
    if (cacheFormat == StateCacheFormat.FP4_E2M1_BLOCK32) {
      return refuse(new StateRefusal.Ratio128RejectsFp4());
    }
    return Optional.empty();
  }

  private static Optional<StateRefusal> refuse(StateRefusal refusal) {
    return Optional.of(refusal);
  }
}
