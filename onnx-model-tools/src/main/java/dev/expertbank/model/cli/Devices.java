package dev.expertbank.model.cli;

import dev.expertbank.spi.qmoe.QMoeSpec;
import java.util.List;

/** The kinds of devices that compute a node. */
final class Devices {
  private Devices() {}

  static List<String> of(QMoeSpec spec) {
    return switch (spec.layout()) {
      case PLAIN -> List.of("host", "cuda");
      case SM80 -> List.of("cuda");
    };
  }

  /** What keeps a node from some of them; empty if nothing does. */
  static String limit(QMoeSpec spec) {
    return switch (spec.layout()) {
      case PLAIN -> "";
      case SM80 -> "cuda only: SM80 layout";
    };
  }
}
