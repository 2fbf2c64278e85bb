package dev.expertbank.memory;

/** What claimed bytes are for. */
public enum MemoryRole {
  KV_CACHE("KV cache"),
  /** Scratch that outlives a step. */
  WORKSPACE("workspace"),
  /** Scratch that one step needs and gives back. */
  STEP_WORKSPACE("step workspace"),
  WEIGHTS("weights"),
  ACTIVATION("activation");

  private final String text;

  MemoryRole(String text) {
    this.text = text;
  }

  @Override
  public String toString() {
    return text;
  }
}
