package dev.expertbank.model;

import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.ExternalDataFile;
import dev.expertbank.spi.GraphNode;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * An ONNX file as plain data, without its external data; immutable and safe to share.
 *
 * <p>Inline constants are read through {@link ConstantData.Inline#reader()} at any time: they hold
 * on to the file's bytes on the heap.
 *
 * @param file as it was given to the reader
 * @param directory where the locations of external data start: {@link
 *     ExternalDataFile#modelDirectory}
 * @param fileBytes size of the {@code .onnx} file
 * @param opsets version by domain, with {@code ai.onnx} for the default domain
 * @param functions bodies of model-local functions
 */
public record OnnxModel(
    Path file,
    Path directory,
    long fileBytes,
    long irVersion,
    String producerName,
    String producerVersion,
    SortedMap<String, Long> opsets,
    OnnxGraph graph,
    List<OnnxGraph> functions) {
  public OnnxModel {
    opsets = Collections.unmodifiableSortedMap(new TreeMap<>(opsets));
    functions = List.copyOf(functions);
  }

  /** A node and the path of the graph that holds it. */
  public record LocatedNode(String graph, GraphNode node) {}

  /** All graphs: the main graph, nested graphs and function bodies. */
  public Stream<OnnxGraph> graphs() {
    return Stream.concat(Stream.of(graph), functions.stream()).flatMap(OnnxGraph::withSubgraphs);
  }

  /** Nodes of that type in all graphs, for example {@code com.microsoft::QMoE}. */
  public List<LocatedNode> nodes(String qualifiedType) {
    return graphs()
        .flatMap(g -> g.nodes().stream().map(n -> new LocatedNode(g.path(), n)))
        .filter(n -> n.node().qualifiedType().equals(qualifiedType))
        .toList();
  }

  /** Nodes by qualified type, over all graphs; a function body counts once. */
  public SortedMap<String, Long> operatorCounts() {
    return graphs()
        .flatMap(g -> g.nodes().stream())
        .collect(
            Collectors.groupingBy(GraphNode::qualifiedType, TreeMap::new, Collectors.counting()));
  }

  /** Initializers of all graphs. */
  public Stream<OnnxInitializer> initializers() {
    return graphs().flatMap(g -> g.initializers().stream());
  }

  /**
   * Bytes of initializers in files beside the model; a range that several initializers share counts
   * once.
   */
  public long externalBytes() {
    return initializers()
        .map(OnnxInitializer::data)
        .filter(ConstantData.External.class::isInstance)
        .collect(Collectors.toMap(Function.identity(), ConstantData::byteLength, (a, b) -> a))
        .values()
        .stream()
        .reduce(0L, Math::addExact);
  }

  /** Bytes of initializers inside the model file. */
  public long inlineBytes() {
    return initializers()
        .map(OnnxInitializer::data)
        .filter(ConstantData.Inline.class::isInstance)
        .mapToLong(ConstantData::byteLength)
        .reduce(0L, Math::addExact);
  }
}
