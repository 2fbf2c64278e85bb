package dev.expertbank.state;

import dev.expertbank.memory.MemoryLease;
import java.util.List;
import java.util.Map;

/**
 * The admitted memory of one state group: the claim and the buffers, which live and die together.
 * The buffers keep their addresses until the charge is closed. Safe for use by any thread; close it
 * when no run can use the buffers any more.
 */
public final class StateCharge implements AutoCloseable {
  private final StateLedger ledger;
  final CsaStateGroupDescriptor descriptor;
  final Map<StateByteClass, Long> bytesByClass;
  final MemoryLease lease;

  /** In the order of the requests; entered once, before the charge is handed out. */
  List<StateBuffer> buffers = List.of();

  /** Read and written by the ledger, under its lock. */
  boolean closed;

  StateCharge(
      StateLedger ledger,
      CsaStateGroupDescriptor descriptor,
      Map<StateByteClass, Long> bytesByClass,
      MemoryLease lease) {
    this.ledger = ledger;
    this.descriptor = descriptor;
    this.bytesByClass = bytesByClass;
    this.lease = lease;
  }

  /** The bytes that this charge was admitted with. */
  public long bytes() {
    return StateLedger.sum(bytesByClass);
  }

  /** The buffers, one for each request and in their order. They belong to this charge. */
  public List<StateBuffer> buffers() {
    return buffers;
  }

  /**
   * Frees the buffers and gives the claim back. A buffer that cannot be freed is logged and
   * counted, and its bytes stay claimed. Closing again does nothing.
   */
  @Override
  public void close() {
    ledger.release(this);
  }
}
