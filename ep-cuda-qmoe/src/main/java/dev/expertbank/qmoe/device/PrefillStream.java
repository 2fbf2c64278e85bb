package dev.expertbank.qmoe.device;

import dev.expertbank.residency.PrefillStreamMetrics;

/** Two slots through which a device streams the cold experts of prefill. */
public interface PrefillStream {
  /** What was streamed so far. Safe from any thread. */
  PrefillStreamMetrics metrics();

  /**
   * Gives the slots back; no run is in flight, and later ones read every cold expert in place.
   *
   * @return false if a copy may still write to a slot: its memory is lost
   */
  boolean release();
}
