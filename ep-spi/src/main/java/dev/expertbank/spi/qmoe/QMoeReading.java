package dev.expertbank.spi.qmoe;

import java.util.List;

/** What {@link QMoeSpecs#read} makes of a node. */
public sealed interface QMoeReading {
  /**
   * The node can be computed.
   *
   * @param notes assumptions that the node leaves open, each one sentence or two
   */
  record Supported(QMoeSpec spec, List<String> notes) implements QMoeReading {
    public Supported {
      notes = List.copyOf(notes);
    }
  }

  /**
   * The node cannot be computed as it is.
   *
   * @param code stable, such as {@code qmoe.block}
   * @param reason names the tensor or attribute, what was expected and what was found, and the fix
   *     where there is one; printable
   */
  record Unsupported(String code, String reason) implements QMoeReading {}
}
