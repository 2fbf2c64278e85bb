package dev.expertbank.model.cli;

import dev.expertbank.spi.qmoe.RoutingSemantics;
import java.util.Locale;

/** Names of {@link RoutingSemantics} as the provider's option {@code routing.semantics} has. */
enum Routing {
  ORT_CPU(RoutingSemantics.ORT_CPU),
  ORT_CUDA(RoutingSemantics.ORT_CUDA);

  final RoutingSemantics semantics;

  Routing(RoutingSemantics semantics) {
    this.semantics = semantics;
  }

  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT).replace('_', '-');
  }
}
