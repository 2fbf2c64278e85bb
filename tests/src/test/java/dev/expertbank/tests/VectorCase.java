package dev.expertbank.tests;

import dev.expertbank.spi.AttributeValue;
import dev.expertbank.spi.ElementType;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import tools.jackson.jr.ob.JSON;

/**
 * One file of {@code qmoe_vectors} that holds a node.
 *
 * @param name file name without {@code .json}, unique
 * @param executionProvider the ONNX Runtime provider that the expectation is for
 * @param errorSubstring part of ONNX Runtime's own message; empty unless {@link Expect#FAILURE}
 * @param tolerance largest absolute difference; NaN for failures
 * @param output empty for failures
 * @param referenceRoutes per row, in order of the file; empty where the file has none
 * @param referenceOutput double-precision output in nine digits; empty where the file has none
 */
record VectorCase(
    String name,
    String source,
    String executionProvider,
    Expect expect,
    String errorSubstring,
    Map<String, String> sessionConfig,
    double tolerance,
    MoeNode node,
    Optional<TensorData> output,
    Optional<List<List<Route>>> referenceRoutes,
    Optional<List<Double>> referenceOutput) {

  static final String DIRECTORY = "qmoe_vectors";

  enum Expect {
    SUCCESS,
    FAILURE,
    /** Match the double reference, not ONNX Runtime. */
    ORT_DEVIATES_FROM_SPEC
  }

  /**
   * Upstream does not compile the tests that hold these cases, and since they were written the
   * operator asks for {@code swiglu_fusion=1}; their stored expectation is for nodes that have it.
   */
  private static final Set<String> LACK_SWIGLU_FUSION =
      Set.of(
          "QMoETest_CPU_FC3_Error__cpu",
          "QMoETest_CPU_KExceedsNumExperts__cpu",
          "QMoETest_CPU_SwiGLU_Int4__cpu",
          "QMoETest_CPU_SwiGLU_Int8__cpu");

  private static final Set<String> REAL_ATTRIBUTES =
      Set.of("activation_alpha", "activation_beta", "swiglu_limit");

  /** Every case, in order of name. */
  static List<VectorCase> all() {
    return files().stream()
        .filter(f -> !f.startsWith("derived_layout_"))
        .map(VectorCase::read)
        .toList();
  }

  static Stream<VectorCase> where(Expect expect) {
    return all().stream().filter(c -> c.expect == expect);
  }

  /** Name of every file that {@code _index.json} lists, in order. */
  static List<String> files() {
    List<String> files = new ArrayList<>();
    for (Object entry : (List<?>) json("_index.json")) {
      files.add((String) field((Map<?, ?>) entry, "file"));
    }
    files.sort(Comparator.naturalOrder());
    return files;
  }

  /** The parsed file: maps, lists, numbers and texts. */
  static Object json(String file) {
    String path = "/" + DIRECTORY + "/" + file;
    try (InputStream in = VectorCase.class.getResourceAsStream(path)) {
      if (in == null) {
        throw new IllegalArgumentException("no resource " + path);
      }
      return JSON.std.anyFrom(in);
    } catch (IOException e) {
      throw new UncheckedIOException(path, e);
    }
  }

  private static VectorCase read(String file) {
    Map<?, ?> json = (Map<?, ?>) json(file);
    Expect expect = Expect.valueOf(((String) field(json, "expect")).toUpperCase(Locale.ROOT));
    String name = file.substring(0, file.length() - ".json".length());
    MoeNode node = node(json);
    return new VectorCase(
        name,
        (String) field(json, "source"),
        (String) field(json, "execution_provider"),
        expect,
        json.get("expected_error_substring") instanceof String text ? text : "",
        sessionConfig(json.get("session_config")),
        json.get("tolerance") instanceof Number number ? number.doubleValue() : Double.NaN,
        LACK_SWIGLU_FUSION.contains(name)
            ? node.with("swiglu_fusion", new AttributeValue.IntValue(1))
            : node,
        expect == Expect.FAILURE
            ? Optional.empty()
            : Optional.of(tensor((Map<?, ?>) field(json, "output"))),
        Optional.ofNullable(json.get("reference_routes")).map(VectorCase::routes),
        Optional.ofNullable(json.get("reference_output_double"))
            .map(values -> Arrays.stream(numbers(values)).boxed().toList()));
  }

  private static MoeNode node(Map<?, ?> json) {
    Map<String, AttributeValue> attributes = new HashMap<>();
    ((Map<?, ?>) field(json, "attributes"))
        .forEach((name, value) -> attributes.put((String) name, attribute((String) name, value)));
    List<@Nullable TensorData> inputs = new ArrayList<>();
    for (Object input : (List<?>) field(json, "inputs")) {
      Map<?, ?> fields = (Map<?, ?>) input;
      int slot = ((Number) field(fields, "index")).intValue();
      while (inputs.size() <= slot) {
        inputs.add(null);
      }
      if (!Boolean.TRUE.equals(fields.get("absent"))) {
        inputs.set(slot, tensor(fields));
      }
    }
    return new MoeNode((String) field(json, "op"), attributes, inputs);
  }

  private static AttributeValue attribute(String name, @Nullable Object value) {
    return switch (value) {
      case String text -> new AttributeValue.StringValue(text);
      case Number number when REAL_ATTRIBUTES.contains(name) ->
          new AttributeValue.FloatValue(number.floatValue());
      case Number number -> new AttributeValue.IntValue(number.longValue());
      case null, default ->
          throw new IllegalArgumentException("attribute " + name + " is " + value);
    };
  }

  private static TensorData tensor(Map<?, ?> json) {
    ElementType type =
        switch ((String) field(json, "dtype")) {
          case "float32" -> ElementType.FLOAT;
          case "float16" -> ElementType.FLOAT16;
          case "bfloat16" -> ElementType.BFLOAT16;
          case "uint8" -> ElementType.UINT8;
          default -> throw new IllegalArgumentException("dtype " + json.get("dtype"));
        };
    long[] shape = Arrays.stream(numbers(field(json, "shape"))).mapToLong(d -> (long) d).toArray();
    return TensorData.of(type, shape, numbers(field(json, "data")));
  }

  private static List<List<Route>> routes(Object rows) {
    return ((List<?>) rows).stream().map(VectorCase::routesOfRow).toList();
  }

  private static List<Route> routesOfRow(Object row) {
    return ((List<?>) row)
        .stream()
            .map(Map.class::cast)
            .map(
                route ->
                    new Route(
                        ((Number) field(route, "expert")).intValue(),
                        ((Number) field(route, "weight")).doubleValue()))
            .toList();
  }

  private static Map<String, String> sessionConfig(@Nullable Object json) {
    Map<String, String> config = new HashMap<>();
    if (json instanceof Map<?, ?> entries) {
      entries.forEach((key, value) -> config.put((String) key, (String) value));
    }
    return config;
  }

  static double[] numbers(Object values) {
    return ((Collection<?>) values).stream().mapToDouble(VectorCase::number).toArray();
  }

  private static double number(@Nullable Object value) {
    if (value instanceof Number number) {
      return number.doubleValue();
    }
    if ("-inf".equals(value)) {
      return Double.NEGATIVE_INFINITY;
    }
    throw new IllegalArgumentException("not a number: " + value);
  }

  static Object field(Map<?, ?> json, String name) {
    Object value = json.get(name);
    if (value == null) {
      throw new IllegalArgumentException("no field " + name + " in " + json.keySet());
    }
    return value;
  }

  @Override
  public String toString() {
    return name;
  }
}
