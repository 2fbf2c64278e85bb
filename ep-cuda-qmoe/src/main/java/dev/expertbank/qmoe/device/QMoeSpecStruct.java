package dev.expertbank.qmoe.device;

import dev.expertbank.spi.qmoe.QMoeSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;

/** {@code eb_qmoe_spec} of {@code qmoe.h}: what is fixed when a node is compiled. */
public final class QMoeSpecStruct {
  public static final StructLayout LAYOUT =
      MemoryLayout.structLayout(
          ValueLayout.JAVA_INT.withName("hidden"),
          ValueLayout.JAVA_INT.withName("inter"),
          ValueLayout.JAVA_INT.withName("experts"),
          ValueLayout.JAVA_INT.withName("top_k"),
          ValueLayout.JAVA_INT.withName("bits"),
          ValueLayout.JAVA_INT.withName("block_size"),
          ValueLayout.JAVA_INT.withName("activation"),
          ValueLayout.JAVA_INT.withName("swiglu_fusion"),
          ValueLayout.JAVA_INT.withName("has_fc3"),
          ValueLayout.JAVA_INT.withName("io_type"),
          ValueLayout.JAVA_INT.withName("scale_type"),
          ValueLayout.JAVA_INT.withName("routing"),
          ValueLayout.JAVA_INT.withName("normalize"),
          ValueLayout.JAVA_INT.withName("layout"),
          ValueLayout.JAVA_FLOAT.withName("alpha"),
          ValueLayout.JAVA_FLOAT.withName("beta"),
          ValueLayout.JAVA_FLOAT.withName("limit"));

  private QMoeSpecStruct() {}

  /** The structure of a specification. */
  public static MemorySegment allocate(Arena arena, QMoeSpec spec) {
    MemorySegment struct = arena.allocate(LAYOUT);
    set(struct, "hidden", spec.hidden());
    set(struct, "inter", spec.inter());
    set(struct, "experts", spec.experts());
    set(struct, "top_k", spec.topK());
    set(struct, "bits", spec.bits());
    set(struct, "block_size", spec.blockSize());
    set(struct, "activation", activation(spec));
    set(struct, "swiglu_fusion", spec.swigluFusion());
    set(struct, "has_fc3", spec.fc3() ? 1 : 0);
    set(struct, "io_type", spec.ioType().code());
    set(struct, "scale_type", spec.scaleType().code());
    set(struct, "routing", routing(spec));
    set(struct, "normalize", spec.normalizeRoutingWeights() ? 1 : 0);
    set(struct, "layout", layout(spec));
    set(struct, "alpha", spec.alpha());
    set(struct, "beta", spec.beta());
    set(struct, "limit", spec.limit());
    return struct;
  }

  private static int activation(QMoeSpec spec) {
    return switch (spec.activation()) {
      case RELU -> 0;
      case GELU -> 1;
      case SILU -> 2;
      case SWIGLU -> 3;
      case IDENTITY -> 4;
    };
  }

  private static int routing(QMoeSpec spec) {
    return switch (spec.routing()) {
      case ORT_CPU -> 0;
      case ORT_CUDA -> 1;
    };
  }

  private static int layout(QMoeSpec spec) {
    return switch (spec.layout()) {
      case PLAIN -> 0;
      case SM80 -> 1;
    };
  }

  private static void set(MemorySegment struct, String field, int value) {
    struct.set(ValueLayout.JAVA_INT, offset(field), value);
  }

  private static void set(MemorySegment struct, String field, float value) {
    struct.set(ValueLayout.JAVA_FLOAT, offset(field), value);
  }

  private static long offset(String field) {
    return LAYOUT.byteOffset(PathElement.groupElement(field));
  }
}
