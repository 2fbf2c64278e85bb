package dev.expertbank.model;

import dev.expertbank.residency.simulation.RouteTrace;
import dev.expertbank.residency.simulation.RouteTrace.Phase;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.Printable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import tools.jackson.core.JacksonException;
import tools.jackson.core.JsonParser;
import tools.jackson.core.JsonToken;
import tools.jackson.core.ObjectReadContext;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.core.exc.JacksonIOException;
import tools.jackson.core.json.JsonFactory;

/**
 * A file of recorded routes: a JSON object with {@code model}, {@code num_layers}, {@code
 * num_experts} and {@code top_k}, and after these {@code prompts}, a map from names to {@code
 * {prompt_len, prefill, decode}}. {@code prefill} is {@code [prompt_len][layers][top k]} expert
 * numbers, {@code decode} is {@code [tokens][layers][top k]}.
 *
 * @param model what was recorded, as the file names it
 * @param prompts one trace for each prompt, in the order of the file: a window for the prompt and
 *     one for each token after it
 */
public record RouteTraceFile(String model, Map<String, RouteTrace> prompts) {
  /** More layers or experts than any model has; keeps claims from being believed. */
  private static final int LARGEST_CLAIM = 1 << 16;

  /** Windows times layers times experts of a prompt: 512 MiB of counts. */
  private static final long MOST_COUNTS = 1 << 27;

  private static final JsonFactory FACTORY =
      JsonFactory.builder().enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION).build();

  public RouteTraceFile {
    prompts = Collections.unmodifiableMap(new LinkedHashMap<>(prompts));
  }

  /**
   * Reads a file, all of it or nothing.
   *
   * @throws EpException {@code trace.read} if the file cannot be read, {@code trace.format} with
   *     the place of what is wrong
   */
  public static RouteTraceFile read(Path file) {
    String name = Printable.quote(file.toString());
    try (InputStream in = Files.newInputStream(file);
        JsonParser parser = FACTORY.createParser(ObjectReadContext.empty(), in)) {
      return new Reader(parser).read();
    } catch (IOException | JacksonIOException e) {
      throw new EpException("trace.read", "cannot read the trace " + name + ": " + e, e);
    } catch (JacksonException e) {
      throw new EpException(
          "trace.format", "the trace " + name + " is refused: " + e.getOriginalMessage(), e);
    } catch (IllegalArgumentException e) {
      throw new EpException(
          "trace.format", "the trace " + name + " is refused: " + e.getMessage(), e);
    }
  }

  /** Takes the document apart; {@link IllegalArgumentException} says what is wrong. */
  private static final class Reader {
    private final JsonParser parser;
    private Optional<String> model = Optional.empty();
    private int layers;
    private int experts;
    private int topK;
    private final Map<String, RouteTrace> prompts = new LinkedHashMap<>();

    Reader(JsonParser parser) {
      this.parser = parser;
    }

    RouteTraceFile read() {
      expect(JsonToken.START_OBJECT, "an object");
      while (parser.nextToken() != JsonToken.END_OBJECT) {
        String member = parser.currentName();
        switch (member) {
          case "model" -> {
            expect(JsonToken.VALUE_STRING, "the model's name");
            model = Optional.of(parser.getString());
          }
          case "num_layers" -> layers = claim(member);
          case "num_experts" -> experts = claim(member);
          case "top_k" -> topK = claim(member);
          case "prompts" -> prompts();
          default -> throw unknown(member);
        }
      }
      if (parser.nextToken() != null) {
        throw wrong("text after the end");
      }
      return new RouteTraceFile(
          model.orElseThrow(() -> new IllegalArgumentException("no model")), prompts);
    }

    private int claim(String member) {
      int value = integer();
      if (value < 1 || value > LARGEST_CLAIM) {
        throw wrong(member + " is " + value);
      }
      return value;
    }

    private void prompts() {
      if (layers == 0 || experts == 0 || topK == 0) {
        throw wrong("num_layers, num_experts and top_k have to come before the prompts");
      }
      expect(JsonToken.START_OBJECT, "the prompts");
      while (parser.nextToken() != JsonToken.END_OBJECT) {
        String name = parser.currentName();
        try {
          prompts.put(name, prompt());
        } catch (IllegalArgumentException e) {
          throw new IllegalArgumentException(
              "prompt " + Printable.quote(name) + ": " + e.getMessage(), e);
        }
      }
    }

    private RouteTrace prompt() {
      Optional<Integer> length = Optional.empty();
      int[][][] prefill = {};
      int[][][] decode = {};
      expect(JsonToken.START_OBJECT, "a prompt");
      while (parser.nextToken() != JsonToken.END_OBJECT) {
        String member = parser.currentName();
        switch (member) {
          case "prompt_len" -> length = Optional.of(integer());
          case "prefill" -> prefill = rows();
          case "decode" -> decode = rows();
          default -> throw unknown(member);
        }
      }
      if (prefill.length == 0 || decode.length == 0) {
        throw wrong("no prefill rows or no decode rows");
      }
      if (length.isPresent() && length.get() != prefill.length) {
        throw wrong("prompt_len is " + length.get() + ", prefill has " + prefill.length + " rows");
      }
      long counts = (long) layers * experts;
      if (counts > MOST_COUNTS / (1 + decode.length)) {
        throw wrong(
            "%d decode rows of %d layers of %d experts are too much; split the prompt"
                .formatted(decode.length, layers, experts));
      }
      RouteTrace.Builder builder =
          new RouteTrace.Builder(
              Collections.nCopies(layers, experts), Collections.nCopies(layers, topK));
      try {
        builder.window(Phase.PREFILL, prefill);
      } catch (IllegalArgumentException e) {
        throw new IllegalArgumentException("prefill " + e.getMessage(), e);
      }
      try {
        builder.windowPerRow(Phase.DECODE, decode);
      } catch (IllegalArgumentException e) {
        throw new IllegalArgumentException("decode " + e.getMessage(), e);
      }
      return builder.build();
    }

    private int[][][] rows() {
      List<int[][]> rows = new ArrayList<>();
      expect(JsonToken.START_ARRAY, "rows");
      while (parser.nextToken() == JsonToken.START_ARRAY) {
        List<int[]> row = new ArrayList<>();
        while (parser.nextToken() == JsonToken.START_ARRAY) {
          row.add(chosen());
        }
        current(JsonToken.END_ARRAY, "the end of a row");
        rows.add(row.toArray(int[][]::new));
      }
      current(JsonToken.END_ARRAY, "the end of the rows");
      return rows.toArray(int[][][]::new);
    }

    private int[] chosen() {
      List<Integer> chosen = new ArrayList<>();
      while (parser.nextToken() == JsonToken.VALUE_NUMBER_INT) {
        chosen.add(parser.getIntValue());
      }
      current(JsonToken.END_ARRAY, "the number of an expert");
      return chosen.stream().mapToInt(Integer::intValue).toArray();
    }

    private int integer() {
      expect(JsonToken.VALUE_NUMBER_INT, "an integer");
      return parser.getIntValue();
    }

    private void expect(JsonToken token, String what) {
      parser.nextToken();
      current(token, what);
    }

    private void current(JsonToken token, String what) {
      if (parser.currentToken() != token) {
        throw wrong("found " + parser.currentToken() + " where " + what + " should be");
      }
    }

    private IllegalArgumentException unknown(String member) {
      return wrong("unknown member " + Printable.quote(member));
    }

    private IllegalArgumentException wrong(String what) {
      var place = parser.currentTokenLocation();
      return new IllegalArgumentException(
          "%s (line %d, column %d)".formatted(what, place.getLineNr(), place.getColumnNr()));
    }
  }
}
