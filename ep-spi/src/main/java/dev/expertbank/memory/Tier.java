package dev.expertbank.memory;

import java.util.Locale;

/** Where bytes are kept, fastest first, which is also the order of demotion. */
public enum Tier {
  DEVICE,
  HOST,
  DISK;

  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT);
  }
}
