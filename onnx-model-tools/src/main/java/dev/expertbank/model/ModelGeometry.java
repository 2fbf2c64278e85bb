package dev.expertbank.model;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/**
 * Shapes of a public mixture-of-experts model, from {@code model_geometries.tsv}.
 *
 * @param layers layers with experts; the model may have others
 * @param activation as its configuration names it
 * @param routing how its router weighs experts
 * @param note what else matters, {@code -} for nothing
 */
public record ModelGeometry(
    String name,
    int layers,
    int hidden,
    int inter,
    int experts,
    int topK,
    String activation,
    String routing,
    String note) {
  private static final List<ModelGeometry> ALL = load();

  /** Every known model, in the order of the table. */
  public static List<ModelGeometry> all() {
    return ALL;
  }

  public static Optional<ModelGeometry> named(String name) {
    return ALL.stream().filter(g -> g.name().equals(name)).findFirst();
  }

  /** Whether a softmax over the selected router logits is how this model weighs experts. */
  public boolean routedBySoftmax() {
    return routing.startsWith("softmax");
  }

  /**
   * A synthetic model of these shapes: int4 with blocks of 32, and the model's own activation. Its
   * router is a softmax, whatever the model has.
   */
  public SyntheticModel.Builder synthetic() {
    SyntheticModel.Builder builder =
        SyntheticModel.builder()
            .geometry(hidden, inter, experts, topK)
            .layers(layers)
            .biases(note.equals("bias"))
            .normalizeRoutingWeights(!routing.contains("not normalised"));
    if (name.startsWith("gpt-oss")) {
      return builder;
    }
    if (activation.equals("gelu-glu")) {
      return builder.activation("gelu", 0, true);
    }
    boolean limited = activation.startsWith("swiglu limit ");
    float limit =
        limited
            ? Float.parseFloat(activation.substring("swiglu limit ".length()))
            : Float.POSITIVE_INFINITY;
    return builder.swiglu(1, 0, limit);
  }

  private static List<ModelGeometry> load() {
    try (InputStream in =
            Objects.requireNonNull(
                ModelGeometry.class.getResourceAsStream("model_geometries.tsv"));
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
      return lines
          .lines()
          .filter(line -> !line.startsWith("#"))
          .skip(1)
          .map(line -> parse(line.split("\t", -1)))
          .toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static ModelGeometry parse(String[] columns) {
    return new ModelGeometry(
        columns[0],
        Integer.parseInt(columns[1]),
        Integer.parseInt(columns[3]),
        Integer.parseInt(columns[4]),
        Integer.parseInt(columns[5]),
        Integer.parseInt(columns[6]),
        columns[7],
        columns[8],
        columns[9]);
  }
}
