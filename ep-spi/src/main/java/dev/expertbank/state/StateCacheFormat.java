package dev.expertbank.state;

import java.util.Arrays;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** How the compressed entries of a state group are stored. */
public enum StateCacheFormat {
  F32("f32"),
  /** 8-bit floats, 4 exponent and 3 mantissa bits, one scale for 64 of them. */
  FP8_E4M3_BLOCK64("fp8_e4m3_block64"),
  /** 4-bit floats, 2 exponent bits and 1 mantissa bit, one scale for 32 of them. */
  FP4_E2M1_BLOCK32("fp4_e2m1_block32");

  private final String id;

  StateCacheFormat(String id) {
    this.id = id;
  }

  /**
   * The format that an attribute names; without an attribute it is {@link #F32}.
   *
   * @throws StateGroupException with {@link StateRefusal.UnknownCacheFormat} for any other name
   */
  public static StateCacheFormat parse(@Nullable String name) {
    if (name == null) {
      return F32;
    }
    for (StateCacheFormat format : values()) {
      if (format.id.equals(name)) {
        return format;
      }
    }
    throw new StateGroupException(new StateRefusal.UnknownCacheFormat(name));
  }

  static String ids() {
    return Arrays.stream(values()).map(format -> format.id).collect(Collectors.joining(", "));
  }

  @Override
  public String toString() {
    return id;
  }
}
