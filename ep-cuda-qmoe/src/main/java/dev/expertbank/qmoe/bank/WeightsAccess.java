package dev.expertbank.qmoe.bank;

/** How experts are read from external data. */
public enum WeightsAccess {
  /** In place, from a read-only shared mapping: nothing is loaded before it is used. */
  MAP,
  /** Copied into memory by positional reads when a node is compiled. */
  COPY
}
