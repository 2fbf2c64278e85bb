package dev.expertbank.state;

/** Allocates the memory of state groups on one device. Safe for use by any thread. */
public interface StateBuffers {
  /**
   * Allocates a buffer filled with zeros.
   *
   * @param bytes at least 1
   * @throws RuntimeException if the device cannot; nothing is allocated then
   */
  StateBuffer allocate(long bytes);
}
