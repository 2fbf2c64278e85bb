package dev.expertbank.spi;

import java.util.List;

/** Every node that a provider saw while one session was created, and what it answered. */
public record PlacementReport(List<NodePlacement> nodes) {
  public PlacementReport {
    nodes = List.copyOf(nodes);
  }

  /**
   * One node and the answer to it.
   *
   * @param graph name of the graph or subgraph that holds the node
   */
  public record NodePlacement(String graph, String node, String qualifiedType, Claim claim) {}

  public List<NodePlacement> claimed() {
    return nodes.stream().filter(n -> n.claim() instanceof Claim.Claimed).toList();
  }

  public List<NodePlacement> refused() {
    return nodes.stream().filter(n -> n.claim() instanceof Claim.Refused).toList();
  }
}
