package dev.expertbank.ort;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * Holds the host's positions, offsets and signatures against the full table of the 1.29 headers.
 */
class OrtTableConformanceTest {
  /** A row of {@code ort_api_slots.tsv}. */
  private record Row(String struct, int slot, long offset, String name, String since, String ffm) {}

  private static final Map<String, Row> TABLE = read();

  @TestFactory
  Stream<DynamicTest> functions() {
    return Arrays.stream(OrtFunction.values())
        .map(
            function ->
                DynamicTest.dynamicTest(
                    function.cName(),
                    () -> {
                      Row row = row(function.table().cName(), function.cName());
                      assertThat(function.index()).isEqualTo(row.slot());
                      assertThat(8L * function.index()).isEqualTo(row.offset());
                      assertThat(function.signature()).isEqualTo(row.ffm());
                      if (!row.since().isEmpty()) {
                        int minor = Integer.parseInt(row.since().substring("1.".length()));
                        assertThat(minor).isLessThanOrEqualTo(OrtRuntime.MIN_MINOR);
                      }
                    }));
  }

  @TestFactory
  Stream<DynamicTest> structFields() {
    return Arrays.stream(OrtStructField.values())
        .map(
            field ->
                DynamicTest.dynamicTest(
                    field.struct() + "." + field.cName(),
                    () -> {
                      Row row = row(field.struct(), field.cName());
                      assertThat(field.offset()).isEqualTo(row.offset());
                      assertThat(field.signature()).isEqualTo(row.ffm());
                    }));
  }

  @Test
  void structSizesReachJustBeyondTheLastField() {
    assertThat(OrtStructField.FACTORY_BYTES).isEqualTo(lastOffset("OrtEpFactory") + 8);
    assertThat(OrtStructField.EP_BYTES).isEqualTo(lastOffset("OrtEp") + 8);
    assertThat(OrtStructField.NODE_COMPUTE_INFO_BYTES)
        .isEqualTo(lastOffset("OrtNodeComputeInfo") + 8);
    assertThat(OrtStructField.KERNEL_IMPL_BYTES).isEqualTo(lastOffset("OrtKernelImpl") + 8);
    assertThat(OrtStructField.NODE_FUSION_OPTIONS_DROP_CONSTANT_INITIALIZERS)
        .isEqualTo(row("OrtNodeFusionOptions", "drop_constant_initializers").offset());
  }

  @Test
  void onlyFunctionsThatReturnAStatusReportThrowsAsStatus() {
    assertThat(OrtStructField.values())
        .filteredOn(field -> field.onThrow() == Upcall.OnThrow.STATUS)
        .allSatisfy(
            field -> {
              assertThat(field.signature()).startsWith("P(");
              assertThat(field.cName()).isNotIn("GetName", "GetVendor", "GetVersion");
            });
  }

  private static long lastOffset(String struct) {
    return TABLE.values().stream()
        .filter(row -> row.struct().equals(struct))
        .mapToLong(Row::offset)
        .max()
        .orElseThrow();
  }

  private static Row row(String struct, String name) {
    return Objects.requireNonNull(TABLE.get(struct + "." + name), struct + "." + name);
  }

  private static Map<String, Row> read() {
    Map<String, Row> rows = new HashMap<>();
    try (var in =
            Objects.requireNonNull(
                OrtTableConformanceTest.class.getResourceAsStream("/ort_api_slots.tsv"));
        var reader = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
      reader
          .lines()
          .skip(1)
          .map(line -> line.split("\t", -1))
          .forEach(
              c ->
                  rows.put(
                      c[0] + "." + c[3],
                      new Row(
                          c[0], Integer.parseInt(c[1]), Long.parseLong(c[2]), c[3], c[4], c[6])));
    } catch (IOException e) {
      throw new AssertionError(e);
    }
    return rows;
  }
}
