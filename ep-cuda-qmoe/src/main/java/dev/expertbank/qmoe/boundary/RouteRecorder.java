package dev.expertbank.qmoe.boundary;

import dev.expertbank.qmoe.device.RouteSink;
import dev.expertbank.residency.LayerLayout;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.spi.EpException;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Writes the routes of a session to a file that the simulator reads. A run of more than one row
 * starts a prompt, the runs of one row after it are its tokens. Runs that overlap others cannot be
 * told apart and are left out, as is a prompt without tokens; both are counted in the log. Safe
 * from any thread; the file is written when this is closed.
 */
public final class RouteRecorder implements RouteSink, AutoCloseable {
  private static final System.Logger LOG = System.getLogger(RouteRecorder.class.getName());

  private final Path file;
  private final int experts;
  private final int topK;
  private final List<List<int[]>> current = new ArrayList<>();
  private final List<Prompt> prompts = new ArrayList<>();
  private long dropped;

  /** One prompt: rows as JSON text, the first run's and those after it. */
  private record Prompt(List<String> prefill, List<String> decode) {}

  /**
   * Records to a file, which is created now.
   *
   * @throws EpException {@code routes.record} if the file cannot be written, or the layers of the
   *     model differ in experts or top k, which the format cannot express
   */
  public RouteRecorder(Path file, ResidencyLayout layout) {
    this.file = file;
    LayerLayout first = layout.layer(0);
    experts = first.experts();
    topK = first.topK();
    for (LayerLayout layer : layout.layers()) {
      if (layer.experts() != experts || layer.topK() != topK) {
        throw new EpException(
            "routes.record",
            "routes.record needs layers that agree in experts and top k: one has "
                + experts
                + " and "
                + topK
                + ", another "
                + layer.experts()
                + " and "
                + layer.topK());
      }
      current.add(new ArrayList<>());
    }
    try {
      Files.writeString(file, "");
    } catch (IOException e) {
      throw new EpException("routes.record", "cannot write the routes to " + file + ": " + e, e);
    }
  }

  @Override
  public synchronized void routes(int layer, int[] selected) {
    for (int at = 0; at < selected.length; at += topK) {
      int[] row = new int[topK];
      System.arraycopy(selected, at, row, 0, topK);
      current.get(layer).add(row);
    }
  }

  /** Ends what one or more runs have recorded. */
  public synchronized void runsEnded(int runs) {
    int rows = current.getFirst().size();
    boolean complete = rows > 0 && current.stream().allMatch(layer -> layer.size() == rows);
    if (runs == 1 && complete) {
      List<String> text = IntStream.range(0, rows).mapToObj(this::row).toList();
      if (rows > 1 || prompts.isEmpty()) {
        prompts.add(new Prompt(text, new ArrayList<>()));
      } else {
        prompts.getLast().decode().addAll(text);
      }
    } else {
      dropped += runs;
    }
    current.forEach(List::clear);
  }

  private String row(int row) {
    return current.stream()
        .map(
            layer ->
                IntStream.of(layer.get(row))
                    .mapToObj(Integer::toString)
                    .collect(Collectors.joining(",", "[", "]")))
        .collect(Collectors.joining(",", "[", "]"));
  }

  @Override
  public synchronized void close() {
    List<Prompt> whole = prompts.stream().filter(prompt -> !prompt.decode().isEmpty()).toList();
    try (BufferedWriter out = Files.newBufferedWriter(file)) {
      out.write(
          "{\"model\":\"recorded by expertbank\",\"num_layers\":%d,\"num_experts\":%d,\"top_k\":%d,"
              .formatted(current.size(), experts, topK));
      out.write("\"prompts\":{");
      for (int i = 0; i < whole.size(); i++) {
        Prompt prompt = whole.get(i);
        out.write(
            "%s\n\"prompt-%d\":{\"prompt_len\":%d,\"prefill\":["
                .formatted(i == 0 ? "" : ",", i + 1, prompt.prefill().size()));
        out.write(String.join(",\n", prompt.prefill()));
        out.write("],\n\"decode\":[");
        out.write(String.join(",\n", prompt.decode()));
        out.write("]}");
      }
      out.write("}}\n");
    } catch (IOException e) {
      LOG.log(System.Logger.Level.ERROR, "cannot write the routes to " + file, e);
    }
    if (dropped > 0 || whole.size() < prompts.size()) {
      LOG.log(
          System.Logger.Level.WARNING,
          file
              + " lacks "
              + dropped
              + " runs that overlapped others or did not reach every layer, and "
              + (prompts.size() - whole.size())
              + " prompts without tokens");
    }
  }
}
