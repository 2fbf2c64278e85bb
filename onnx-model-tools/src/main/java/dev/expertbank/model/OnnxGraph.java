package dev.expertbank.model;

import dev.expertbank.spi.GraphNode;
import java.util.List;
import java.util.stream.Stream;

/**
 * A graph, the body of an If, Loop or Scan, or the body of a model-local function.
 *
 * @param path where it is: {@code main}, {@code main/loop_1.body}, {@code function domain::Name}
 * @param nodes in file order
 * @param initializers stored tensors, including the values of Constant nodes
 * @param subgraphs the graphs that are attributes of the nodes, in node order
 */
public record OnnxGraph(
    String path,
    List<GraphNode> nodes,
    List<OnnxInitializer> initializers,
    List<ValueInfo> inputs,
    List<ValueInfo> outputs,
    List<OnnxGraph> subgraphs) {
  public OnnxGraph {
    nodes = List.copyOf(nodes);
    initializers = List.copyOf(initializers);
    inputs = List.copyOf(inputs);
    outputs = List.copyOf(outputs);
    subgraphs = List.copyOf(subgraphs);
  }

  /** This graph and every graph nested in it. */
  public Stream<OnnxGraph> withSubgraphs() {
    return Stream.concat(Stream.of(this), subgraphs.stream().flatMap(OnnxGraph::withSubgraphs));
  }
}
