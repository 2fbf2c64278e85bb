package dev.expertbank.model.cli;

import java.io.PrintWriter;
import java.util.Collection;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JsonGenerator;
import tools.jackson.core.ObjectWriteContext;
import tools.jackson.core.PrettyPrinter;
import tools.jackson.core.StreamWriteFeature;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.core.json.JsonWriteFeature;
import tools.jackson.core.util.DefaultIndenter;
import tools.jackson.core.util.DefaultPrettyPrinter;

/**
 * Prints one JSON document from maps, collections, strings, numbers and booleans. Every character
 * outside ASCII is escaped, so names from a file cannot do anything to a terminal.
 */
public final class JsonDocument {
  /** Version of what the documents contain; it changes when a member changes its meaning. */
  public static final int SCHEMA = 1;

  private static final JsonFactory FACTORY =
      JsonFactory.builder()
          .enable(JsonWriteFeature.ESCAPE_NON_ASCII)
          .disable(StreamWriteFeature.AUTO_CLOSE_TARGET)
          .build();

  private JsonDocument() {}

  /** Prints the members of the document in their order. */
  public static void print(PrintWriter out, Map<String, ?> members) {
    DefaultIndenter indenter = new DefaultIndenter("  ", "\n");
    ObjectWriteContext context =
        new ObjectWriteContext.Base() {
          @Override
          public PrettyPrinter getPrettyPrinter() {
            return new DefaultPrettyPrinter()
                .withObjectIndenter(indenter)
                .withArrayIndenter(indenter);
          }
        };
    try (JsonGenerator json = FACTORY.createGenerator(context, out)) {
      write(json, members);
    }
    out.println();
  }

  private static void write(JsonGenerator json, @Nullable Object value) {
    switch (value) {
      case null -> json.writeNull();
      case Map<?, ?> map -> {
        json.writeStartObject();
        map.forEach(
            (key, member) -> {
              json.writeName(key.toString());
              write(json, member);
            });
        json.writeEndObject();
      }
      case Collection<?> list -> {
        json.writeStartArray();
        list.forEach(element -> write(json, element));
        json.writeEndArray();
      }
      case String text -> json.writeString(text);
      case Boolean bool -> json.writeBoolean(bool);
      case Integer number -> json.writeNumber(number);
      case Long number -> json.writeNumber(number);
      case Float number when Float.isFinite(number) -> json.writeNumber(number);
      case Double number when Double.isFinite(number) -> json.writeNumber(number);
      default -> throw new IllegalArgumentException("no JSON for " + value);
    }
  }
}
