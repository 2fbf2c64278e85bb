package dev.expertbank.model;

import dev.expertbank.spi.EpException;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Walks the protobuf encoding of a model before any object is built from it.
 *
 * <p>An empty node takes two bytes in the file and a hundred on the heap, so counts are limited
 * here, where they cost nothing, together with lengths and nesting.
 */
final class WireCheck {
  /** The protobuf runtime stops at 100 nested messages. A nested graph takes three of them. */
  private static final int MAX_NESTING = 99;

  private static final int GRAPH_FIELD = 7;

  /** The messages of onnx.proto that the reader builds objects for, with a limit on each. */
  private enum Message {
    MODEL("models", 1),
    OPSET("operator sets", 10_000),
    FUNCTION("functions", 100_000),
    GRAPH("graphs", 100_000),
    NODE("nodes", 500_000),
    ATTRIBUTE("attributes", 5_000_000),
    TENSOR("tensors", 1_000_000),
    VALUE("declared values", 2_000_000),
    TYPE("types", 4_000_000),
    TENSOR_TYPE("tensor types", 4_000_000),
    SHAPE("shapes", 4_000_000),
    DIMENSION("dimensions of declared values", 10_000_000),
    SPARSE_TENSOR("sparse tensors", 1_000_000),
    WRAPPED_TYPE("sequence, map and optional types", 4_000_000),
    ANNOTATION("quantization annotations", 1_000_000),
    TRAINING("training graphs", 1_000),
    ENTRY("key-value entries", 5_000_000);

    final String plural;
    final long limit;

    Message(String plural, long limit) {
      this.plural = plural;
      this.limit = limit;
    }

    /** The message that a field of this one holds, by onnx.proto; null for any other field. */
    @Nullable Message child(int field) {
      return switch (this) {
        case MODEL ->
            switch (field) {
              case GRAPH_FIELD -> GRAPH;
              case 8 -> OPSET;
              case 14 -> ENTRY;
              case 20 -> TRAINING;
              case 25 -> FUNCTION;
              default -> null;
            };
        case TRAINING -> field <= 2 ? GRAPH : field <= 4 ? ENTRY : null;
        case FUNCTION ->
            switch (field) {
              case 7 -> NODE;
              case 9 -> OPSET;
              case 11 -> ATTRIBUTE;
              case 12 -> VALUE;
              case 14 -> ENTRY;
              default -> null;
            };
        case GRAPH ->
            switch (field) {
              case 1 -> NODE;
              case 5 -> TENSOR;
              case 11, 12, 13 -> VALUE;
              case 14 -> ANNOTATION;
              case 15 -> SPARSE_TENSOR;
              case 16 -> ENTRY;
              default -> null;
            };
        case NODE -> field == 5 ? ATTRIBUTE : field == 9 ? ENTRY : null;
        case ATTRIBUTE ->
            switch (field) {
              case 5, 10 -> TENSOR;
              case 6, 11 -> GRAPH;
              case 14, 15 -> TYPE;
              case 22, 23 -> SPARSE_TENSOR;
              default -> null;
            };
        case SPARSE_TENSOR -> field <= 2 ? TENSOR : null;
        case TENSOR -> field == 13 || field == 16 ? ENTRY : null;
        case ANNOTATION -> field == 2 ? ENTRY : null;
        case VALUE -> field == 2 ? TYPE : field == 4 ? ENTRY : null;
        case TYPE ->
            switch (field) {
              case 1, 8 -> TENSOR_TYPE;
              case 4, 5, 9 -> WRAPPED_TYPE;
              default -> null;
            };
        case WRAPPED_TYPE -> field <= 2 ? TYPE : null;
        case TENSOR_TYPE -> field == 2 ? SHAPE : null;
        case SHAPE -> field == 1 ? DIMENSION : null;
        case OPSET, DIMENSION, ENTRY -> null;
      };
    }
  }

  private final byte[] bytes;
  private final Map<Message, Long> counts = new EnumMap<>(Message.class);
  private int at;
  private boolean hasGraph;

  private WireCheck(byte[] bytes) {
    this.bytes = bytes;
  }

  /**
   * Checks the whole file.
   *
   * @throws EpException {@code model.malformed}, {@code model.limit} or {@code model.nesting}
   */
  static void check(byte[] bytes) {
    WireCheck check = new WireCheck(bytes);
    check.message(Message.MODEL, bytes.length, 1);
    if (!check.hasGraph) {
      throw malformed("it holds no graph");
    }
  }

  private void message(Message kind, int end, int depth) {
    if (depth > MAX_NESTING) {
      throw new EpException(
          "model.nesting",
          "graphs, types or attributes are nested deeper than "
              + MAX_NESTING
              + " messages at byte "
              + at);
    }
    if (counts.merge(kind, 1L, Long::sum) > kind.limit) {
      throw new EpException(
          "model.limit", String.format(Locale.ROOT, "more than %,d %s", kind.limit, kind.plural));
    }
    while (at < end) {
      long tag = varint(end);
      if (tag <= 0 || tag > 0xffff_ffffL) {
        throw malformed("byte " + (at - 1) + " ends an invalid field number");
      }
      int field = (int) (tag >>> 3);
      switch ((int) (tag & 7)) {
        case 0 -> varint(end);
        case 1 -> skip(8, end);
        case 5 -> skip(4, end);
        case 2 -> {
          long length = varint(end);
          if (length < 0 || length > end - at) {
            throw malformed(
                "field %d at byte %d claims %s bytes where %d remain"
                    .formatted(field, at, Long.toUnsignedString(length), end - at));
          }
          Message child = kind.child(field);
          if (child == null) {
            at += (int) length;
          } else {
            hasGraph |= kind == Message.MODEL && field == GRAPH_FIELD;
            message(child, at + (int) length, depth + 1);
          }
        }
        default -> throw malformed("byte " + (at - 1) + " starts a field of an unknown wire type");
      }
    }
  }

  private long varint(int end) {
    long value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= end) {
        throw malformed("a number is cut off at byte " + at);
      }
      byte b = bytes[at++];
      value |= (long) (b & 0x7f) << shift;
      if (b >= 0) {
        return value;
      }
    }
    throw malformed("the number before byte " + at + " is longer than 64 bits");
  }

  private void skip(int count, int end) {
    if (count > end - at) {
      throw malformed("a field is cut off at byte " + at);
    }
    at += count;
  }

  private static EpException malformed(String what) {
    return new EpException("model.malformed", what);
  }
}
