package dev.expertbank.qmoe.boundary;

/** Whether prefill streams cold experts through two slots. */
public enum PrefillStreaming {
  /** If the device gains by it and there is room for the slots. */
  AUTO,
  OFF,
  ON
}
