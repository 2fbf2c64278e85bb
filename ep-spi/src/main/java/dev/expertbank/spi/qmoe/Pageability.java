package dev.expertbank.spi.qmoe;

/** Whether every expert of a tensor is a byte range of its own in a file. */
public sealed interface Pageability {
  record Pageable() implements Pageability {}

  /** A valid finding, not an error: the tensor is used as a whole. */
  record NonPageable(NonPageableReason reason) implements Pageability {}
}
