package dev.expertbank.state;

/** Memory of a device. Its address is the same until it is closed. */
public interface StateBuffer extends AutoCloseable {
  /** Where the buffer begins, in the address space of its device. */
  long address();

  long bytes();

  /**
   * Frees the memory.
   *
   * @throws RuntimeException if the device cannot free it; the memory counts as held from then on
   */
  @Override
  void close();
}
