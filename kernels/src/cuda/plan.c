#include "../spec.h"
#include "qmoe_cuda.h"

#include <string.h>

/* Bytes of a row's weights that a stage of decode holds, at most. */
#define DECODE_ROW_BYTES 1536

/* Fewer groups than that are not worth a stage. */
#define DECODE_MIN_GROUPS 8

#define GROUP 32
#define TILE_ROWS 16
#define PREFILL_ROWS 128
#define PREFILL_GROUPS 2
#define SCALE_BLOCKS 16
/* One for each filling warp: see DecodeFiller. */
#define MIN_STAGES EB_CUDA_FILLING_WARPS

/* From so many routes for each expert on, a run is a matrix product. */
#define PREFILL_ROUTES_PER_EXPERT 24

/* What every block needs beside its own shared memory. */
#define RESERVED_SHARED_BYTES 1024

/* The kernels' numbers: these, then those that compute experts, by phase, element type and bits. */
enum { ROUTE, GROUP_ROUTES, COMBINE, DECODE, FEW = DECODE + 9, PREFILL = FEW + 9 };

static const char *const kernel_names[] = {
    "eb_route", "eb_group", "eb_combine",
    "eb_decode_f16_w2", "eb_decode_f16_w4", "eb_decode_f16_w8",
    "eb_decode_bf16_w2", "eb_decode_bf16_w4", "eb_decode_bf16_w8",
    "eb_decode_f32_w2", "eb_decode_f32_w4", "eb_decode_f32_w8",
    "eb_few_f16_w2", "eb_few_f16_w4", "eb_few_f16_w8",
    "eb_few_bf16_w2", "eb_few_bf16_w4", "eb_few_bf16_w8",
    "eb_few_f32_w2", "eb_few_f32_w4", "eb_few_f32_w8",
    "eb_prefill_f16_w2", "eb_prefill_f16_w4", "eb_prefill_f16_w8",
    "eb_prefill_bf16_w2", "eb_prefill_bf16_w4", "eb_prefill_bf16_w8",
};

#define KERNELS ((int32_t)(sizeof kernel_names / sizeof *kernel_names))

void expertbank_cuda_abi(int64_t sizes[4]) {
    sizes[0] = (int64_t)sizeof(eb_expert_row);
    sizes[1] = (int64_t)sizeof(eb_qmoe_spec);
    sizes[2] = (int64_t)sizeof(eb_cuda_run);
    sizes[3] = (int64_t)sizeof(eb_cuda_plan);
}

const char *expertbank_cuda_kernel_name(int32_t kernel) {
    return kernel >= 0 && kernel < KERNELS ? kernel_names[kernel] : NULL;
}

static int64_t divide_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit;
}

static int64_t round_up(int64_t value, int64_t unit) {
    return divide_up(value, unit) * unit;
}

/* ONNX Runtime's CUDA kernels define the layout for these shapes only. */
static int layout_is_supported(const eb_qmoe_spec *spec) {
    if (spec->layout == EB_LAYOUT_PLAIN) {
        return 1;
    }
    return spec->layout == EB_LAYOUT_SM80 && spec->bits != 2 && spec->hidden % 64 == 0 && spec->inter % 64 == 0
        && spec->block_size != 16;
}

/* Bytes that the scales of so many groups of a row take in shared memory: a window of whole pieces of 16 bytes. */
static int32_t scale_stride(const eb_qmoe_spec *spec, int64_t groups) {
    int64_t blocks = spec->block_size == 0 ? 1 : divide_up(groups * GROUP, spec->block_size) + 1;
    int64_t bytes = blocks * (spec->scale_type == EB_FLOAT ? 4 : 2);
    return (int32_t)(round_up(bytes, 16) + 16);
}

static int32_t zero_point_stride(const eb_qmoe_spec *spec, int32_t zero_points, int64_t groups) {
    if (!zero_points) {
        return 0;
    }
    int64_t blocks = spec->block_size == 0 ? 1 : divide_up(groups * GROUP, spec->block_size) + 2;
    return (int32_t)(round_up(divide_up(blocks * spec->bits, 8) + 1, 16) + 16);
}

/* The most stages with which so many blocks share a multiprocessor, else with which one fits; 0 if none does. */
static int32_t choose_stages(const eb_cuda_limits *limits, int64_t blocks, int64_t fixed, int64_t stage) {
    int64_t shared = limits->shared_bytes_per_multiprocessor / blocks - RESERVED_SHARED_BYTES;
    if (shared < fixed + MIN_STAGES * stage || shared > limits->shared_bytes_per_block) {
        shared = limits->shared_bytes_per_block;
    }
    int64_t stages = (shared - fixed) / stage;
    if (stages < MIN_STAGES) {
        return 0;
    }
    return stages < EB_CUDA_MAX_STAGES ? (int32_t)stages : EB_CUDA_MAX_STAGES;
}

static int32_t block_shift(const eb_qmoe_spec *spec) {
    if (spec->block_size == 0) {
        return 31;
    }
    int32_t shift = -1;
    for (int64_t block = GROUP / 2; block < spec->block_size; block *= 2) {
        shift++;
    }
    return shift;
}

static int64_t tiles_of(const eb_qmoe_spec *spec, int step) {
    int64_t outputs = step == EB_CUDA_FC1 ? round_up(spec->inter, GROUP) : spec->hidden;
    return divide_up(outputs, step == EB_CUDA_FC1 && eb_has_linear_half(spec) ? TILE_ROWS / 2 : TILE_ROWS);
}

static int32_t expert_kernel(const eb_qmoe_spec *spec, int32_t phase) {
    int32_t io = spec->io_type == EB_FLOAT16 ? 0 : spec->io_type == EB_BFLOAT16 ? 1 : 2;
    int32_t bits = spec->bits == 2 ? 0 : spec->bits == 4 ? 1 : 2;
    return phase + 3 * io + bits;
}

static int64_t max_token_tiles(const eb_cuda_run *run) {
    int64_t routes = (int64_t)run->tokens * run->spec.top_k;
    int64_t experts = routes < run->spec.experts ? routes : run->spec.experts;
    int64_t tiles = routes / run->tile_columns + experts;
    return tiles < routes ? tiles : routes;
}

static int plan_decode(const eb_cuda_limits *limits, eb_cuda_plan *plan, int32_t phase, int32_t zero_points) {
    eb_cuda_run *run = &plan->run;
    const eb_qmoe_spec *spec = &run->spec;
    int32_t group_bytes = GROUP * spec->bits / 8;
    int64_t band = spec->layout == EB_LAYOUT_PLAIN ? 1 : spec->bits == 4 ? 4 : 2;
    int64_t fixed = EB_CUDA_BARRIER_BYTES
                  + 2 * (EB_CUDA_THREADS / 32) * TILE_ROWS * (int64_t)run->tile_columns * (int64_t)sizeof(float)
                  + EB_CUDA_MAX_STAGES * EB_CUDA_INFO_BYTES((int64_t)run->tile_columns)
                  + EB_CUDA_KNOWN_TILES * EB_CUDA_TOKEN_TILE_BYTES((int64_t)run->tile_columns);
    int64_t stage = 0;
    run->stages = 0;
    for (int32_t chunk = DECODE_ROW_BYTES / group_bytes; run->stages == 0 && chunk >= DECODE_MIN_GROUPS; chunk /= 2) {
        run->decode_chunk = chunk;
        run->scale_stride = scale_stride(spec, chunk);
        run->zero_point_stride = zero_point_stride(spec, zero_points, chunk);
        int64_t copied = band * chunk * group_bytes + EB_CUDA_BAND_PADDING;
        stage = round_up(TILE_ROWS / band * copied + TILE_ROWS * (run->scale_stride + run->zero_point_stride)
                             + EB_CUDA_BIAS_BYTES, EB_CUDA_LINE_BYTES);
        run->stages = choose_stages(limits, 2, fixed, stage);
    }
    if (run->stages == 0) {
        return 1;
    }
    int64_t shared = fixed + run->stages * stage;
    int64_t resident = limits->shared_bytes_per_multiprocessor / (shared + RESERVED_SHARED_BYTES);
    int64_t blocks = limits->multiprocessors * (resident >= 2 ? 2 : 1);
    for (int step = 0; step < 2; step++) {
        int64_t tiles = run->max_tiles * tiles_of(spec, step);
        plan->compute[step] = (eb_cuda_launch){expert_kernel(spec, phase), step,
                                               (int32_t)(tiles < blocks ? tiles : blocks),
                                               phase == DECODE ? EB_CUDA_DECODE_THREADS : EB_CUDA_FEW_THREADS,
                                               (int32_t)shared};
    }
    return 0;
}

static int plan_prefill(const eb_cuda_limits *limits, eb_cuda_plan *plan, int32_t zero_points) {
    eb_cuda_run *run = &plan->run;
    const eb_qmoe_spec *spec = &run->spec;
    run->scale_stride = (SCALE_BLOCKS + 1) * (int32_t)sizeof(float);
    run->zero_point_stride = zero_points ? SCALE_BLOCKS : 0;
    int64_t fixed = 2 * PREFILL_ROWS * (int64_t)(run->scale_stride + run->zero_point_stride);
    int64_t row = spec->bits == 2 ? 16 : spec->bits == 4 ? 48 : 96;
    int64_t stage = PREFILL_ROWS * row + (int64_t)run->tile_columns * PREFILL_GROUPS * GROUP * 2;
    run->stages = choose_stages(limits, 2, fixed, stage);
    if (run->stages == 0) {
        return 1;
    }
    for (int step = 0; step < 2; step++) {
        int64_t blocks = run->max_tiles * divide_up(tiles_of(spec, step), PREFILL_ROWS / TILE_ROWS);
        if (blocks > INT32_MAX) {
            return 1;
        }
        plan->compute[step] = (eb_cuda_launch){expert_kernel(spec, PREFILL), step, (int32_t)blocks, EB_CUDA_THREADS,
                                               (int32_t)(fixed + run->stages * stage)};
    }
    return 0;
}

/* The next `bytes` of the workspace. */
static uint64_t take(uint64_t *used, int64_t bytes) {
    uint64_t at = *used;
    *used += (uint64_t)round_up(bytes, 256);
    return at;
}

#define TAKE(field, count) run->field = (void *)(uintptr_t)take(&used, (int64_t)(count) * (int64_t)sizeof *run->field)

void expertbank_cuda_place(const eb_cuda_plan *plan, uint64_t workspace, eb_cuda_run *run) {
    const eb_qmoe_spec *spec = &plan->run.spec;
    int64_t tokens = plan->run.tokens;
    int64_t routes = tokens * spec->top_k;
    int64_t parts = spec->io_type == EB_FLOAT ? 3 : 1;
    uint64_t used = workspace;
    run->fused_grouping = plan->run.fused_grouping;
    run->route_blocks = plan->run.route_blocks;
    run->tile_columns = plan->run.tile_columns;
    run->max_tiles = plan->run.max_tiles;
    run->stages = plan->run.stages;
    run->block_shift = plan->run.block_shift;
    run->decode_chunk = plan->run.decode_chunk;
    run->scale_stride = plan->run.scale_stride;
    run->zero_point_stride = plan->run.zero_point_stride;
    /* The ticket of the group kernel is first: it has to be 0, also when the next run in this workspace is another. */
    TAKE(tile_count, 2);
    TAKE(run_rows, spec->experts);
    TAKE(route_expert, routes);
    TAKE(route_weight, routes);
    TAKE(keys, spec->experts > EB_CUDA_SHARED_EXPERTS ? tokens * spec->experts : 0);
    TAKE(expert_count, spec->experts);
    TAKE(expert_list, spec->experts * tokens);
    TAKE(token_tiles, plan->run.max_tiles);
    TAKE(x, parts * tokens * round_up(spec->hidden, GROUP));
    TAKE(inner, parts * routes * round_up(spec->inter, GROUP));
    TAKE(y, routes * spec->hidden);
}

static int32_t phase_of(const eb_qmoe_spec *spec, int64_t tokens) {
    if (tokens <= EB_CUDA_DECODE_COLUMNS) {
        return DECODE;
    }
    int64_t routes = tokens * spec->top_k;
    return spec->io_type != EB_FLOAT && routes >= PREFILL_ROUTES_PER_EXPERT * (int64_t)spec->experts ? PREFILL : FEW;
}

int32_t expertbank_cuda_plan(const eb_qmoe_spec *spec, int32_t zero_points, int64_t tokens,
                             const eb_cuda_limits *limits, eb_cuda_plan *plan) {
    if (!eb_spec_is_supported(spec) || !layout_is_supported(spec) || tokens < 1 || tokens > EB_CUDA_MAX_RUN_TOKENS) {
        return 1;
    }
    memset(plan, 0, sizeof *plan);
    plan->run.spec = *spec;
    plan->run.tokens = (int32_t)tokens;
    plan->run.block_shift = block_shift(spec);
    int32_t phase = phase_of(spec, tokens);
    plan->run.tile_columns = phase == DECODE ? EB_CUDA_DECODE_COLUMNS
                           : phase == FEW    ? EB_CUDA_FEW_COLUMNS
                                             : EB_CUDA_PREFILL_COLUMNS;
    plan->run.max_tiles = (int32_t)max_token_tiles(&plan->run);
    plan->run.fused_grouping = phase == DECODE && spec->experts <= EB_CUDA_SHARED_EXPERTS;
    plan->run.route_blocks = (int32_t)divide_up(tokens, EB_CUDA_THREADS / 32);
    int64_t pack_blocks = tokens * divide_up(round_up(spec->hidden, GROUP), EB_CUDA_PACK_ELEMENTS);
    int64_t row_blocks = divide_up((int64_t)spec->experts * EB_CUDA_ROW_PIECES, EB_CUDA_THREADS);
    plan->route[0] = (eb_cuda_launch){ROUTE, 0, (int32_t)(plan->run.route_blocks + row_blocks + pack_blocks),
                                      EB_CUDA_THREADS, 0};
    plan->routes = 1;
    if (!plan->run.fused_grouping) {
        plan->route[plan->routes++] =
            (eb_cuda_launch){GROUP_ROUTES, 0, (int32_t)divide_up(spec->experts, EB_CUDA_THREADS / 32),
                             EB_CUDA_THREADS, 0};
    }
    if (phase == PREFILL ? plan_prefill(limits, plan, zero_points) : plan_decode(limits, plan, phase, zero_points)) {
        return 1;
    }
    plan->combine =
        (eb_cuda_launch){COMBINE, 0, (int32_t)(tokens * divide_up(spec->hidden, EB_CUDA_THREADS)), EB_CUDA_THREADS, 0};
    eb_cuda_run unused;
    expertbank_cuda_place(plan, 0, &unused);
    plan->workspace_bytes = (int64_t)((uintptr_t)unused.y + (uintptr_t)round_up(
        tokens * spec->top_k * (int64_t)spec->hidden * (int64_t)sizeof(float), 256));
    return 0;
}
