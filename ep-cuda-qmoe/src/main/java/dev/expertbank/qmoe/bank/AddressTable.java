package dev.expertbank.qmoe.bank;

import dev.expertbank.spi.qmoe.QMoeInput;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * The addresses through which kernels reach the experts of one layer: one row per expert, one entry
 * per tensor, NULL where the node has none. Laid out as {@code eb_expert_row} of {@code qmoe.h}.
 */
public final class AddressTable {
  /** Arrays of a row: weights, scales, zero points, biases. */
  private static final int ROLES = 4;

  /** Entries of each array: fc1, fc2, fc3. */
  private static final int FCS = 3;

  /** Bytes of one row. */
  public static final long ROW_BYTES = (long) Long.BYTES * ROLES * FCS;

  private final MemorySegment rows;

  /**
   * A table over memory that is zeroed, so that every address is NULL.
   *
   * @param rows of {@link #bytes}
   */
  AddressTable(MemorySegment rows) {
    this.rows = rows;
  }

  static long bytes(int experts) {
    return Math.multiplyExact(ROW_BYTES, experts);
  }

  /** The rows, for a kernel. */
  public MemorySegment rows() {
    return rows;
  }

  /** Points one tensor of one expert to an address; between runs only. */
  void set(int expert, QMoeInput tensor, long address) {
    set(rows, expert, tensor, address);
  }

  /** The same in a copy of the rows that a run has for itself. */
  static void set(MemorySegment rows, int expert, QMoeInput tensor, long address) {
    rows.set(ValueLayout.JAVA_LONG, offset(expert, tensor), address);
  }

  long get(int expert, QMoeInput tensor) {
    return rows.get(ValueLayout.JAVA_LONG, offset(expert, tensor));
  }

  private static long offset(int expert, QMoeInput tensor) {
    return expert * ROW_BYTES + (long) Long.BYTES * entry(tensor);
  }

  private static int entry(QMoeInput tensor) {
    int role =
        switch (tensor.role()) {
          case WEIGHTS -> 0;
          case SCALES -> 1;
          case ZERO_POINTS -> 2;
          case BIAS -> 3;
          default -> throw new IllegalArgumentException(tensor + " is not an expert tensor");
        };
    int fc =
        switch (tensor.fc().orElseThrow()) {
          case FC1 -> 0;
          case FC2 -> 1;
          case FC3 -> 2;
        };
    return role * FCS + fc;
  }
}
