package dev.expertbank.qmoe.boundary;

import dev.expertbank.spi.ByteSize;

/** How much fast memory a session may use for experts: option {@code memory.budget}. */
public sealed interface MemoryBudget {
  /** None: every expert is read in place. */
  record Off() implements MemoryBudget {}

  /** What is free when the session is created, less a reserve. */
  record Auto() implements MemoryBudget {}

  /** So many bytes. */
  record Bytes(long bytes) implements MemoryBudget {}

  /**
   * Parses the option.
   *
   * @throws IllegalArgumentException if it is not valid
   */
  static MemoryBudget parse(String text) {
    return switch (text) {
      case "off" -> new Off();
      case "auto" -> new Auto();
      default -> new Bytes(ByteSize.parse(text));
    };
  }
}
