package dev.expertbank.spi;

import java.util.List;

/** A provider's answer to one node. */
public sealed interface Claim {
  /**
   * The provider runs the node.
   *
   * @param dropConstants ask ONNX Runtime not to load the node's constant initializers: the
   *     provider reads them itself
   * @param notes assumptions that a user should know of, shown in the placement report
   */
  record Claimed(boolean dropConstants, List<String> notes) implements Claim {
    public Claimed {
      notes = List.copyOf(notes);
    }
  }

  /**
   * The node is of a type that this provider exists for, and it cannot run it. Session creation
   * fails with the reason unless {@code fallback=allow}.
   *
   * @param code stable, such as {@code qmoe.block}
   */
  record Refused(String code, String reason) implements Claim {}

  /** The node is of a type that this provider does not run. */
  record NotApplicable(String reason) implements Claim {}
}
