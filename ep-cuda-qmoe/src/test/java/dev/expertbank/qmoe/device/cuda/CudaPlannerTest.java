package dev.expertbank.qmoe.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.qmoe.bank.AddressTable;
import dev.expertbank.qmoe.device.QMoeSpecStruct;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.qmoe.Activation;
import dev.expertbank.spi.qmoe.QMoeSpec;
import dev.expertbank.spi.qmoe.RoutingSemantics;
import dev.expertbank.spi.qmoe.WeightLayout;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The mirrors of the planner's structures, field by field; needs no GPU. */
class CudaPlannerTest {
  private static final CudaDeviceInfo H200 =
      new CudaDeviceInfo(
          0, "H200", 9, 0, 132, 232448, 233472, 1L << 37, false, true, true, true, true, true);
  private static final int TOP_K = 4;
  private static final long WORKSPACE = 1L << 40;

  private final Arena arena = Arena.ofConfined();
  private final MemorySegment limits = CudaPlanner.limits(arena, H200);

  @AfterEach
  void close() {
    arena.close();
  }

  private static QMoeSpec spec(int bits, ElementType io) {
    return spec(bits, io, Activation.SWIGLU);
  }

  /** With gate and linear rows of fc1 in turns. */
  private static QMoeSpec spec(int bits, ElementType io, Activation activation) {
    return new QMoeSpec(
        2880,
        2816,
        32,
        TOP_K,
        bits,
        32,
        WeightLayout.PLAIN,
        activation,
        1,
        false,
        io,
        ElementType.FLOAT,
        true,
        false,
        1.5f,
        0.5f,
        7,
        RoutingSemantics.ORT_CUDA,
        List.of());
  }

  private Optional<MemorySegment> plan(QMoeSpec spec, int tokens) {
    return CudaPlanner.plan(arena, QMoeSpecStruct.allocate(arena, spec), false, tokens, limits);
  }

  @Test
  void aPlanNamesItsKernelsInTheOrderOfTheirLaunch() {
    assertThat(kernels(plan(spec(4, ElementType.FLOAT16), 1).orElseThrow()))
        .containsExactly("eb_route", "eb_decode_f16_w4", "eb_decode_f16_w4", "eb_combine");
    assertThat(kernels(plan(spec(8, ElementType.BFLOAT16), 2048).orElseThrow()))
        .containsExactly(
            "eb_route", "eb_group", "eb_prefill_bf16_w8", "eb_prefill_bf16_w8", "eb_combine");
  }

  private static List<String> kernels(MemorySegment struct) {
    List<String> names = new ArrayList<>();
    CudaPlan plan =
        CudaPlan.of(
            struct,
            kernel -> {
              names.add(CudaPlanner.kernelName(kernel));
              return kernel;
            });
    assertThat(plan.route()).hasSize(names.size() - 3);
    assertThat(plan.compute()).extracting(CudaPlan.Launch::step).containsExactly(0, 1);
    plan.compute()
        .forEach(
            launch -> {
              assertThat(launch.shape().gridX()).isPositive();
              assertThat(launch.shape().blockX()).isBetween(256, 1024);
              assertThat(launch.shape().blockX() % 32).isZero();
              assertThat(launch.shape().sharedBytes()).isBetween(1, H200.sharedBytesPerBlock());
            });
    assertThat(plan.combine().shape().sharedBytes()).isZero();
    return names;
  }

  @Test
  void aRunIsPlacedInItsWorkspace() {
    QMoeSpec spec = spec(4, ElementType.FLOAT16);
    MemorySegment struct = plan(spec, 3).orElseThrow();
    CudaPlan plan = CudaPlan.of(struct, kernel -> kernel);
    MemorySegment run = arena.allocate(CudaRun.LAYOUT);
    run.copyFrom(plan.run());
    CudaPlanner.place(struct, WORKSPACE, run);

    assertThat(number(run, "tokens")).isEqualTo(3);
    MemorySegment placedSpec = run.asSlice(offset("spec"), QMoeSpecStruct.LAYOUT.byteSize());
    assertThat(placedSpec.mismatch(QMoeSpecStruct.allocate(arena, spec))).isEqualTo(-1);
    assertThat(number(run, "fused_grouping")).isEqualTo(1);
    assertThat(number(run, "tile_columns")).isEqualTo(CudaPlanner.MAX_DECODE_TOKENS);
    assertThat(number(run, "max_tiles")).isEqualTo(3 * TOP_K);
    assertThat(number(run, "zero_point_stride")).isZero();
    assertThat(address(run, "tile_count")).as("the first").isEqualTo(WORKSPACE);
    long last = address(run, "y");
    for (String field : List.of("run_rows", "expert_count", "x", "inner", "y")) {
      assertThat(address(run, field)).isGreaterThan(WORKSPACE).isLessThanOrEqualTo(last);
    }
    assertThat(address(run, "route_expert") - address(run, "run_rows"))
        .isEqualTo(spec.experts() * AddressTable.ROW_BYTES);
    assertThat(address(run, "expert_list") - address(run, "expert_count")).isEqualTo(256);
    long lastBytes = 3L * TOP_K * spec.hidden() * Float.BYTES;
    assertThat(plan.workspaceBytes())
        .isBetween(last - WORKSPACE + lastBytes, last - WORKSPACE + lastBytes + 255);
    for (String field : List.of("rows", "input", "router", "output", "window_header")) {
      assertThat(address(run, field)).isZero();
    }
  }

  @Test
  void whatTheKernelsDoNotComputeHasNoPlan() {
    assertThat(plan(spec(3, ElementType.FLOAT16), 1)).isEmpty();
    assertThat(plan(spec(4, ElementType.FLOAT16), 0)).isEmpty();
    assertThat(plan(spec(4, ElementType.FLOAT16), CudaPlanner.MAX_RUN_TOKENS)).isPresent();
    assertThat(plan(spec(4, ElementType.FLOAT16), CudaPlanner.MAX_RUN_TOKENS + 1)).isEmpty();
    assertThat(plan(spec(4, ElementType.FLOAT16, Activation.RELU), 1))
        .as("two halves of fc1 without swiglu")
        .isEmpty();
  }

  @Test
  void fewTokensAreDecode() {
    MemorySegment most =
        plan(spec(4, ElementType.FLOAT16), CudaPlanner.MAX_DECODE_TOKENS).orElseThrow();
    MemorySegment more =
        plan(spec(4, ElementType.FLOAT16), CudaPlanner.MAX_DECODE_TOKENS + 1).orElseThrow();
    assertThat(kernels(most)).contains("eb_decode_f16_w4");
    assertThat(kernels(more)).contains("eb_few_f16_w4");
  }

  private static int number(MemorySegment run, String field) {
    return run.get(ValueLayout.JAVA_INT, offset(field));
  }

  private static long address(MemorySegment run, String field) {
    return run.get(ValueLayout.JAVA_LONG, offset(field));
  }

  private static long offset(String field) {
    return CudaRun.LAYOUT.byteOffset(PathElement.groupElement(field));
  }
}
