package dev.expertbank.state;

/** What the bytes of a state group are. */
public enum StateByteClass {
  /** Compressed entries. */
  COMPRESSED,
  /** Tokens that do not fill an entry yet. */
  CARRY,
  /** The latest tokens, uncompressed, in a ring. */
  DENSE_RING,
  /** Index entries that select compressed entries. */
  INDEX,
  /** Tokens that do not fill an index entry yet. */
  INDEX_CARRY,
  /** Workspaces of the kernels. */
  SCRATCH
}
