package dev.expertbank.residency.simulation;

import dev.expertbank.residency.ResidencyOutcome.Moves;
import dev.expertbank.residency.ResidencyOutcome.WindowUse;

/**
 * What a simulated run has used and moved.
 *
 * @param prefill what the prefill windows have used
 * @param decode what the decode windows have used
 * @param moves what was moved at all boundaries
 */
public record SimulationResult(WindowUse prefill, WindowUse decode, Moves moves) {

  /** The part of the bytes used while decoding that was resident. */
  public double byteHitRate() {
    return decode.byteHitRate();
  }

  /**
   * Bytes for each decoded token: what decoding read in place and all that was copied, also what
   * was copied first, when nothing was resident.
   */
  public double bytesPerToken() {
    return (double) (decode.missedBytes() + moves.startedBytes()) / decode.tokens();
  }
}
