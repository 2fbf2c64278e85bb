package dev.expertbank.qmoe.device;

import dev.expertbank.qmoe.bank.AddressTable;
import dev.expertbank.spi.qmoe.QMoeSpec;

/** Where the nodes of one session are computed. Safe from any thread. */
public interface Device extends AutoCloseable {
  /**
   * A kernel for one node.
   *
   * @param table the layer's experts; stays the bank's
   */
  QMoeKernel prepare(QMoeSpec spec, AddressTable table);

  /** Called once, after every kernel of the device has been closed. */
  @Override
  void close();
}
