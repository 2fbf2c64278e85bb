package dev.expertbank.spi.qmoe;

/** How a tensor stores its experts. */
public enum ExpertStorageOrder {
  /** One expert after the other, each contiguous. */
  EXPERT_MAJOR,
  /** Elements of different experts alternate, so no expert is one range of bytes. */
  INTERLEAVED
}
