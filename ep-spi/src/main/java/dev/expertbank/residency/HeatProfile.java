package dev.expertbank.residency;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;

/**
 * How often every expert of a model is used: what a warm start knows. Immutable.
 *
 * <p>Bound to the model by a hash over the experts, top k and expert bytes of its layers. Slot
 * bytes are not in it: they are the device's, and a profile moves from one device to another.
 */
public final class HeatProfile {
  private final ResidencyLayout layout;
  private final double[] usesPerRow;

  /**
   * @param usesPerRow the part of the rows that is routed to each expert, 0 to 1, by index
   */
  public HeatProfile(ResidencyLayout layout, double[] usesPerRow) {
    if (usesPerRow.length != layout.keys().size()) {
      throw new IllegalArgumentException(
          usesPerRow.length + " values for " + layout.keys().size() + " experts");
    }
    for (double value : usesPerRow) {
      if (!isPart(value)) {
        throw new IllegalArgumentException(value + " uses per row");
      }
    }
    this.layout = layout;
    this.usesPerRow = usesPerRow.clone();
  }

  /** Whether a value is a part of the rows; negative zero is not. */
  static boolean isPart(double value) {
    return Double.compare(value, 0) >= 0 && value <= 1;
  }

  public ResidencyLayout layout() {
    return layout;
  }

  /** The part of the rows that is routed to an expert, 0 to 1. */
  public double usesPerRow(int index) {
    return usesPerRow[index];
  }

  /** The identity of the models that a profile fits: 64 hexadecimal digits. */
  public static String identity(ResidencyLayout layout) {
    StringBuilder text = new StringBuilder();
    for (LayerLayout layer : layout.layers()) {
      text.append(layer.experts()).append(' ');
      text.append(layer.topK()).append(' ');
      text.append(layer.expertBytes()).append('\n');
    }
    try {
      byte[] hash =
          MessageDigest.getInstance("SHA-256")
              .digest(text.toString().getBytes(StandardCharsets.US_ASCII));
      return HexFormat.of().formatHex(hash);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof HeatProfile profile
        && identity(layout).equals(identity(profile.layout))
        && Arrays.equals(usesPerRow, profile.usesPerRow);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(usesPerRow);
  }
}
