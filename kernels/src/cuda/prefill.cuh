/*
 * Many tokens for each expert: a grouped matrix product. A block multiplies 128 rows of one expert with up to TOKENS of its tokens;
 * weights stay integers until they are in registers, and every group's product is scaled as it is added up.
 */
#ifndef EXPERTBANK_PREFILL_CUH
#define EXPERTBANK_PREFILL_CUH

#include "stage.cuh"

#define PREFILL_TILES 8
#define PREFILL_ROWS (PREFILL_TILES * TILE_ROWS)

/* Groups of a row in a stage. */
#define PREFILL_GROUPS 2

/* Blocks of a row whose scales are fetched together, ahead of the stages that need them; two threads share a row. */
#define SCALE_BLOCKS 16
#define SCALES_PER_THREAD (SCALE_BLOCKS / 2)

/* Floats from one row's scales to the next: the rows of a warp are in different banks. */
#define SCALE_STRIDE (SCALE_BLOCKS + 1)

/* Rows are so far apart that the 8 rows of a warp's load are in different banks. */
template <int BITS>
__device__ constexpr int prefill_row_stride() {
    return BITS == 2 ? 16 : BITS == 4 ? 48 : 96;
}

/* Bytes of a token's activations in a stage. */
#define TOKEN_STRIDE (PREFILL_GROUPS * GROUP * 2)

template <int IO, int BITS>
struct Prefill {
    static constexpr int PARTS = Numeric<IO>::PARTS;
    static constexpr int TOKENS = EB_CUDA_PREFILL_COLUMNS;
    static constexpr int STRIDE = prefill_row_stride<BITS>();
    static constexpr int STAGE_BYTES = PREFILL_ROWS * STRIDE + PARTS * TOKENS * TOKEN_STRIDE;

    /* Pieces of 16 bytes of a row in a stage, one for each thread, and how often the threads go over the rows. */
    static constexpr int ROW_PIECES = PREFILL_GROUPS * GROUP * BITS / 8 / 16;
    static constexpr int PASS_ROWS = EB_CUDA_THREADS / ROW_PIECES < PREFILL_ROWS ? EB_CUDA_THREADS / ROW_PIECES : PREFILL_ROWS;
    static constexpr int PASSES = PREFILL_ROWS / PASS_ROWS;

    /* Eight threads copy a token's activations in a stage. */
    static constexpr int TOKEN_PIECES = TOKEN_STRIDE / 16;
    static constexpr int TOKEN_ROWS = EB_CUDA_THREADS / TOKEN_PIECES;
    static constexpr int TOKEN_PASSES = PARTS * TOKENS / TOKEN_ROWS;

    /* Eight warps: four down the rows with two tiles each, two across the tokens, taking turns of 8. */
    static constexpr int COLUMN_TILES = TOKENS / 16;

    const eb_cuda_run &run;
    Step step;
    const eb_expert_row *expert;
    int first_tile;
    int count;                              /* tokens of this block */
    const int32_t *routes;
    int stage_count;
    int scale_stages;                       /* stages whose scales are fetched together */
    uint8_t *scales;                        /* [2, rows] */
    uint8_t *stages;

    int next_stage;
    int next_slot;
    bool aligned;
    const uint8_t *weights_from[PASSES];    /* this thread's piece in the next stage; NULL: no such row */
    const uint16_t *tokens_from[TOKEN_PASSES];
    float fetched[SCALES_PER_THREAD];
    uint8_t fetched_zero_points[SCALES_PER_THREAD];

    __device__ __forceinline__ Prefill(const eb_cuda_run &run, uint8_t *shared) : run(run), step(step_of(run.spec, run.step)) {
        scales = shared;
        stages = shared + 2 * PREFILL_ROWS * (run.scale_stride + run.zero_point_stride);
        stage_count = (step.groups + PREFILL_GROUPS - 1) / PREFILL_GROUPS;
        scale_stages = SCALE_BLOCKS / PREFILL_GROUPS / (run.block_shift < 0 ? 2 : 1);
        count = 0;
        next_stage = 0;
        next_slot = 0;
        int row_tiles = (step.tiles + PREFILL_TILES - 1) / PREFILL_TILES;
        int token_tile = blockIdx.x / row_tiles;
        if (token_tile >= run.tile_count[0]) {
            return;
        }
        const eb_cuda_token_tile &tile = run.token_tiles[token_tile];
        if (tile.expert < run.first_expert || tile.expert >= run.end_expert) {
            return;
        }
        count = tile.columns;
        first_tile = blockIdx.x % row_tiles * PREFILL_TILES;
        expert = run.run_rows + tile.expert;
        routes = run.expert_list + (int64_t)tile.expert * run.tokens + tile.first;
        find_weights();
        find_tokens();
    }

    __device__ __forceinline__ TileRow tile_row_of(int ordinal) const {
        return tile_row(step, first_tile + ordinal / TILE_ROWS, ordinal % TILE_ROWS);
    }

    __device__ __forceinline__ Matrix matrix_of_row(const TileRow &row) const {
        return matrix_of(*expert, row.fc3 ? 2 : step.matrix);
    }

    __device__ __forceinline__ void find_weights() {
        int row_bytes = step.columns * BITS / 8;
        aligned = row_bytes % 16 == 0;
        RowCopier copier = row_copier<BITS>(run.spec.layout, threadIdx.x, ROW_PIECES);
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            int ordinal = copier.row + pass * PASS_ROWS;
            weights_from[pass] = nullptr;
            if (ordinal < PREFILL_ROWS) {
                TileRow row = tile_row_of(ordinal);
                if (row.valid) {
                    weights_from[pass] = matrix_of_row(row).weight + band_offset<BITS>(run.spec.layout, row.row, row_bytes)
                                       + copier.row_offset;
                }
            }
        }
    }

    __device__ __forceinline__ void find_tokens() {
        Activations activations = activations_of(run, step);
#pragma unroll
        for (int pass = 0; pass < TOKEN_PASSES; pass++) {
            int token = threadIdx.x / TOKEN_PIECES + pass * TOKEN_ROWS % TOKENS;
            int part = pass * TOKEN_ROWS / TOKENS;
            tokens_from[pass] = nullptr;
            if (token < count) {
                int route = routes[token];
                int64_t row = step.matrix == 0 ? route / run.spec.top_k : route;
                tokens_from[pass] = activations.first + row * activations.row_stride + part * activations.part_stride
                                  + threadIdx.x % TOKEN_PIECES * 8;
            }
        }
    }

    __device__ __forceinline__ float *scales_of(int stage) const {
        return reinterpret_cast<float *>(scales
                                         + stage / scale_stages % 2 * PREFILL_ROWS * (run.scale_stride + run.zero_point_stride));
    }

    /* Begins to load the scales of the stages from one on: two threads a row. */
    __device__ __forceinline__ void fetch_scales(int stage) {
        TileRow row = tile_row_of(threadIdx.x / 2);
        Matrix matrix = matrix_of_row(row);
        int first = first_block(run, stage * PREFILL_GROUPS) + threadIdx.x % 2 * SCALES_PER_THREAD;
        int end = step.blocks;
#pragma unroll
        for (int i = 0; i < SCALES_PER_THREAD; i++) {
            bool exists = row.valid && first + i < end;
            fetched[i] = exists ? load_element(run.spec.scale_type, matrix.scale, (int64_t)row.row * step.blocks + first + i)
                                : 0.0f;
            fetched_zero_points[i] = 1 << (BITS - 1);
            if (run.zero_point_stride != 0 && exists && matrix.zero_point != nullptr) {
                int shift = (run.spec.block_size == 0 ? row.row : first + i) * BITS % 8;
                fetched_zero_points[i] = *zero_points_from<BITS>(run, step, matrix.zero_point, row.row, first + i) >> shift
                                       & ((1 << BITS) - 1);
            }
        }
    }

    __device__ __forceinline__ void store_scales(int stage) const {
        TileRow row = tile_row_of(threadIdx.x / 2);
        int place = threadIdx.x / 2 / TILE_ROWS * TILE_ROWS + row.place;
        float *to = scales_of(stage);
        uint8_t *zero_points = reinterpret_cast<uint8_t *>(to) + PREFILL_ROWS * run.scale_stride;
#pragma unroll
        for (int i = 0; i < SCALES_PER_THREAD; i++) {
            int at = threadIdx.x % 2 * SCALES_PER_THREAD + i;
            to[place * SCALE_STRIDE + at] = fetched[i];
            if (run.zero_point_stride != 0) {
                zero_points[place * run.zero_point_stride + at] = fetched_zero_points[i];
            }
        }
    }

    /* Starts to fill the next stage. */
    __device__ __forceinline__ void start() {
        if (next_stage < stage_count) {
            if (next_stage % scale_stages == 0) {
                if (next_stage == 0) {
                    fetch_scales(0);
                }
                store_scales(next_stage);
            }
            if ((next_stage + 1) % scale_stages == 0 && next_stage + 1 < stage_count) {
                fetch_scales(next_stage + 1);
            }
            uint8_t *stage = stages + next_slot * STAGE_BYTES;
            copy_weights(stage);
            copy_tokens(stage + PREFILL_ROWS * STRIDE);
            next_stage++;
            next_slot = next_slot + 1 == run.stages ? 0 : next_slot + 1;
        }
        end_stage_copies();
    }

    __device__ __forceinline__ void copy_weights(uint8_t *to) {
        int row_bytes = step.columns * BITS / 8;
        int offset = next_stage * PREFILL_GROUPS * group_bytes<BITS>();
        if (!aligned) {
            TileRow row = tile_row_of(threadIdx.x / 2);
            int place = threadIdx.x / 2 / TILE_ROWS * TILE_ROWS + row.place;
            copy_unaligned(to + place * STRIDE, matrix_of_row(row).weight + (int64_t)row.row * row_bytes, row_bytes, offset,
                           PREFILL_GROUPS * group_bytes<BITS>(), row.valid, threadIdx.x % 2, 2);
            return;
        }
        RowCopier copier = row_copier<BITS>(run.spec.layout, threadIdx.x, ROW_PIECES);
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            int ordinal = copier.row + pass * PASS_ROWS;
            if (ordinal < PREFILL_ROWS) {
                int place = ordinal / TILE_ROWS * TILE_ROWS + tile_row_of(ordinal).place;
                bool valid = weights_from[pass] != nullptr && offset + 16 * copier.piece < row_bytes;
                copy16(to + place * STRIDE + 16 * copier.piece, valid ? weights_from[pass] : expert->weight[step.matrix], valid);
                if (valid) {
                    weights_from[pass] += PREFILL_GROUPS * group_distance<BITS>(run.spec.layout);
                }
            }
        }
    }

    /* The two groups of every other token change places, so that two tokens' loads are in different banks. */
    __device__ __forceinline__ static int activation_offset(int token, int group) {
        return token * TOKEN_STRIDE + (group ^ (token & 1)) * GROUP * 2;
    }

    __device__ __forceinline__ void copy_tokens(uint8_t *to) {
        int piece = threadIdx.x % TOKEN_PIECES;
        bool exists = next_stage * PREFILL_GROUPS + piece / 4 < step.groups;
#pragma unroll
        for (int pass = 0; pass < TOKEN_PASSES; pass++) {
            int token = threadIdx.x / TOKEN_PIECES + pass * TOKEN_ROWS % TOKENS;
            int part = pass * TOKEN_ROWS / TOKENS;
            if (token < round_up(count, 32)) {
                bool valid = exists && tokens_from[pass] != nullptr;
                copy16(to + part * TOKENS * TOKEN_STRIDE + activation_offset(token, piece / 4) + piece % 4 * 16,
                       valid ? tokens_from[pass] : run.x, valid);
                tokens_from[pass] += valid ? PREFILL_GROUPS * GROUP : 0;
            }
        }
    }

    __device__ __forceinline__ void multiply(int stage, int slot, float total[2][COLUMN_TILES][4]) const {
        if (run.zero_point_stride == 0 && run.block_shift >= 0) {
#pragma unroll
            for (int g = 0; g < PREFILL_GROUPS; g++) {
                int group = stage * PREFILL_GROUPS + g;
                if (group < step.groups) {
                    multiply_group<true>(stage, slot, g, group >> run.block_shift, -1, total);
                }
            }
            return;
        }
        int halves = run.block_shift < 0 ? 2 : 1;
        for (int i = 0; i < PREFILL_GROUPS * halves; i++) {
            int group = stage * PREFILL_GROUPS + i / halves;
            int block = halves == 2 ? 2 * group + i % 2 : group >> run.block_shift;
            if (group < step.groups && block < step.blocks) {
                multiply_group<false>(stage, slot, i / halves, block, halves == 2 ? i % 2 : -1, total);
            }
        }
    }

    /* SIMPLE: no zero points, and blocks of whole groups. */
    template <bool SIMPLE>
    __device__ __forceinline__ void multiply_group(int stage, int slot, int g, int block, int half,
                                                   float total[2][COLUMN_TILES][4]) const {
        const uint8_t *weights = stages + slot * STAGE_BYTES;
        const uint8_t *activations = weights + PREFILL_ROWS * STRIDE;
        const float *scale = scales_of(stage);
        const uint8_t *zero_points = reinterpret_cast<const uint8_t *>(scale) + PREFILL_ROWS * run.scale_stride;
        int at = block - first_block(run, stage / scale_stages * scale_stages * PREFILL_GROUPS);
        int lane = threadIdx.x % 32;
        int warp = threadIdx.x / 32;
        GroupWeights<IO, BITS> rows[2];
#pragma unroll
        for (int m = 0; m < 2; m++) {
            int low = (warp / 2 * 2 + m) * TILE_ROWS + lane / 4;
            int high = low + 8;
            int low_zero = 1 << (BITS - 1), high_zero = 1 << (BITS - 1);
            if (!SIMPLE && run.zero_point_stride != 0) {
                low_zero = zero_points[low * run.zero_point_stride + at];
                high_zero = zero_points[high * run.zero_point_stride + at];
            }
            int in_row = g * group_bytes<BITS>() + lane % 4 * (group_bytes<BITS>() / 4);
            rows[m].load(weights + low * STRIDE + in_row, weights + high * STRIDE + in_row, low_zero, high_zero,
                         scale[low * SCALE_STRIDE + at], scale[high * SCALE_STRIDE + at], SIMPLE ? -1 : half);
        }
        /* Two tiles of tokens at a time: one's loads and products hide the other's. */
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n += 2) {
            int token = (2 * n + warp % 2) * 8;
            if (token < count) {
                uint4 first[PARTS], second[PARTS];
#pragma unroll
                for (int part = 0; part < PARTS; part++) {
                    const uint8_t *of = activations + part * TOKENS * TOKEN_STRIDE + lane % 4 * 16;
                    first[part] = *reinterpret_cast<const uint4 *>(of + activation_offset(token + lane / 4, g));
                    second[part] = *reinterpret_cast<const uint4 *>(of + activation_offset(token + 16 + lane / 4, g));
                }
                rows[0].multiply(first, total[0][n]);
                rows[1].multiply(first, total[1][n]);
                rows[0].multiply(second, total[0][n + 1]);
                rows[1].multiply(second, total[1][n + 1]);
            }
        }
    }

    /* Tokens whose sums are in shared memory at once, and how far apart they are there. */
    static constexpr int STORE_TOKENS = 32;
    static constexpr int SUM_STRIDE = PREFILL_ROWS + 4;

    /* Stores what the block has computed, by way of shared memory so that the outputs of a token are next to each other. */
    __device__ __forceinline__ void store(const float total[2][COLUMN_TILES][4]) const {
        int lane = threadIdx.x % 32;
        int warp = threadIdx.x / 32;
        float *sums = reinterpret_cast<float *>(stages);
#pragma unroll
        for (int pass = 0; pass < TOKENS / STORE_TOKENS; pass++) {
            if (pass * STORE_TOKENS >= count) {
                return;
            }
            __syncthreads();
#pragma unroll
            for (int n = 0; n < STORE_TOKENS / 16; n++) {
#pragma unroll
                for (int m = 0; m < 2; m++) {
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        int token = (2 * n + warp % 2) * 8 + lane % 4 * 2 + i % 2;
                        int place = (warp / 2 * 2 + m) * TILE_ROWS + lane / 4 + i / 2 * 8;
                        sums[token * SUM_STRIDE + place] = total[m][pass * (STORE_TOKENS / 16) + n][i];
                    }
                }
            }
            __syncthreads();
            int tokens = count - pass * STORE_TOKENS < STORE_TOKENS ? count - pass * STORE_TOKENS : STORE_TOKENS;
            store_sums(sums, routes + pass * STORE_TOKENS, tokens);
        }
    }

    __device__ __forceinline__ float biased(const float *sums, int tile, int place) const {
        TileRow row = tile_row(step, first_tile + tile, ordinal_at(step, place));
        return sums[tile * TILE_ROWS + place] + bias_of(run, matrix_of_row(row).bias, row);
    }

    /* Eight outputs a thread: of fc1 eight packed positions, of fc2 eight columns. */
    __device__ __forceinline__ void store_sums(const float *sums, const int32_t *of, int tokens) const {
        int outputs = PREFILL_TILES * step.outputs;
        int first = first_tile * step.outputs;
        int stride = round_up(run.spec.inter, GROUP);
        for (int i = threadIdx.x; i < tokens * (outputs / 8); i += EB_CUDA_THREADS) {
            int token = i / (outputs / 8);
            int at = i % (outputs / 8) * 8;
            int64_t route = of[token];
            const float *mine = sums + token * SUM_STRIDE;
            if (step.matrix == 1) {
                for (int j = 0; j < 8 && first + at + j < run.spec.hidden; j++) {
                    run.y[route * run.spec.hidden + first + at + j] = biased(mine, (at + j) / TILE_ROWS, (at + j) % TILE_ROWS);
                }
            } else if (first + at < stride) {
                uint32_t packed[4];
#pragma unroll 2
                for (int j = 0; j < 8; j++) {
                    int output = element_at(run.spec.layout, BITS, at + j);
                    float value;
                    if (step.arrangement == ROWS_DENSE) {
                        value = activate(run.spec, biased(mine, output / TILE_ROWS, output % TILE_ROWS));
                    } else {
                        value = activate(run.spec, biased(mine, output / 8, output % 8))
                              * linear_half(run.spec, biased(mine, output / 8, output % 8 + 8));
                    }
                    uint16_t part[1];
                    split<IO>(first + output < run.spec.inter ? value : 0.0f, part);
                    reinterpret_cast<uint16_t *>(packed)[j] = part[0];
                }
                *reinterpret_cast<uint4 *>(run.inner + route * stride + first + at) =
                    make_uint4(packed[0], packed[1], packed[2], packed[3]);
            }
        }
    }

    __device__ __forceinline__ void compute() {
        if (count == 0) {
            return;
        }
        for (int i = 0; i < run.stages - 1; i++) {
            start();
        }
        float total[2][COLUMN_TILES][4] = {};
        int slot = 0;
        for (int stage = 0; stage < stage_count; stage++) {
            await_stage_copies(run.stages - 2);
            __syncthreads();
            /* Everyone has left the stage before this one, so its memory can be filled. */
            start();
            multiply(stage, slot, total);
            slot = slot + 1 == run.stages ? 0 : slot + 1;
        }
        store(total);
    }
};

template <int IO, int BITS>
__device__ __forceinline__ void prefill_experts(const eb_cuda_run &run) {
    DYNAMIC_SHARED(shared);
    follow_the_kernel_before();
    Prefill<IO, BITS>(run, shared).compute();
}

#endif
