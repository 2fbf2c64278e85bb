package dev.expertbank.spi.qmoe;

import dev.expertbank.spi.ElementType;

/** One expert tensor of a node: which input it is, its element type and physical shape. */
public record QMoeTensor(QMoeInput input, ElementType elementType, ExpertTensorLayout layout) {
  /** Bytes of one expert: its stride, since experts follow each other without a gap. */
  public long bytesPerExpert() {
    return elementType.bytes(
        Math.multiplyExact(layout.rowsPerExpert(), layout.storageElementsPerRow()));
  }
}
