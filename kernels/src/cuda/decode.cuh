/*
 * Few tokens for each expert: every weight is read once and multiplied with all of an expert's tokens. Bound by memory.
 *
 * A block takes tiles of 16 rows of one expert, one after the other. Whole rows stream through shared memory (long reads
 * of consecutive bytes, which PCIe needs as much as device memory does), its warps share the groups of a stage among them,
 * and their sums are added in a fixed order.
 */
#ifndef EXPERTBANK_DECODE_CUH
#define EXPERTBANK_DECODE_CUH

#include "stage.cuh"

#define WARPS (EB_CUDA_THREADS / 32)
#define MAX_STAGES EB_CUDA_MAX_STAGES

/* Columns of one tensor-core product. */
#define TILE_COLUMNS 8

/*
 * How far apart in shared memory the rows of a stage are, or the bands of rows that SM80 interleaves: so that the 8 rows of a
 * warp's load are in different banks.
 */
template <int BITS>
__device__ __forceinline__ int run_stride(int layout, int bytes) {
    int rows = band_rows<BITS>(layout);
    return rows * bytes + (BITS == 8 ? 32 : 16);
}

/* What whoever multiplies a stage has to know of it, written by whoever fills it. */
template <int COLUMN_TILES>
struct StageInfo {
    static constexpr int COLUMNS = COLUMN_TILES * TILE_COLUMNS;
    int tile;                       /* of rows; -1: nothing to do */
    int columns;                    /* in use */
    int route[COLUMNS];
    int row[COLUMNS];               /* of the activations */
    int scale_at[TILE_ROWS];        /* in the row's scales; -1: there is no such row */
    int zero_point_at[TILE_ROWS];   /* in the row's zero points; -1: there are none */
    float bias[TILE_ROWS];
};

template <int IO, int BITS, int COLUMN_TILES>
struct Decoder {
    static constexpr int PARTS = Numeric<IO>::PARTS;
    static constexpr int COLUMNS = COLUMN_TILES * TILE_COLUMNS;
    using Info = StageInfo<COLUMN_TILES>;
    static_assert(sizeof(Info) <= EB_CUDA_INFO_BYTES(COLUMNS), "plan.c reserves too little");

    const eb_cuda_run &run;
    Step step;
    int layout;
    int row_bytes;
    bool aligned;               /* rows can be copied in pieces of 16 bytes */
    int chunks;
    int tiles;                  /* of rows and tokens */
    int stride;
    int stage_bytes;
    uint8_t *stages;
    uint8_t *infos;
    uint64_t *barriers;
    float *sums;                /* [warps, 16, columns] */

    /* The stage that is filled next: looked up one stage ahead, because the addresses come from memory. */
    int next_tile;
    int next_chunk;
    int next_slot;
    int expert;                 /* -1: of another stage of the run */
    Matrix own;
    Matrix fc3;
    int columns;
    int route;                  /* of this lane's column */
    float bias;                 /* of this lane's place */

    __device__ __forceinline__ Decoder(const eb_cuda_run &run, uint8_t *shared)
        : run(run), step(step_of(run.spec, run.step)), layout(run.spec.layout) {
        row_bytes = step.columns * BITS / 8;
        aligned = row_bytes % 16 == 0;
        chunks = (step.groups + run.decode_chunk - 1) / run.decode_chunk;
        tiles = run.tile_count[0] * step.tiles;
        stride = run_stride<BITS>(layout, run.decode_chunk * group_bytes<BITS>());
        stage_bytes = TILE_ROWS / band_rows<BITS>(layout) * stride + TILE_ROWS * (run.scale_stride + run.zero_point_stride);
        barriers = reinterpret_cast<uint64_t *>(shared);
        infos = shared + 64;
        sums = reinterpret_cast<float *>(infos + MAX_STAGES * EB_CUDA_INFO_BYTES(COLUMNS));
        stages = reinterpret_cast<uint8_t *>(sums + WARPS * TILE_ROWS * COLUMNS);
        next_tile = blockIdx.x;
        next_chunk = 0;
        next_slot = 0;
        init_barriers(barriers, run.stages);
        look_up();
    }

    __device__ __forceinline__ int groups_of(int chunk) const {
        int left = step.groups - chunk * run.decode_chunk;
        return left < run.decode_chunk ? left : run.decode_chunk;
    }

    __device__ __forceinline__ Info &info(int slot) const {
        return *reinterpret_cast<Info *>(infos + slot * EB_CUDA_INFO_BYTES(COLUMNS));
    }

    __device__ __forceinline__ TileRow row_at(int ordinal) const {
        return tile_row(step, next_tile % step.tiles, ordinal);
    }

    /* Field by field: a choice between structures would put them in memory. */
    __device__ __forceinline__ Matrix matrix(const TileRow &row) const {
        return {row.fc3 ? fc3.weight : own.weight, row.fc3 ? fc3.scale : own.scale,
                row.fc3 ? fc3.zero_point : own.zero_point, row.fc3 ? fc3.bias : own.bias};
    }

    /* Reads where a tile is that has not been looked at yet. */
    __device__ __forceinline__ void look_up() {
        if (next_tile >= tiles) {
            return;
        }
        int token_tile = next_tile / step.tiles;
        expert = run.tile_expert[2 * token_tile];
        if (expert < run.first_expert || expert >= run.end_expert) {
            expert = -1;
            return;
        }
        own = matrix_of(run.run_rows[expert], step.matrix);
        fc3 = matrix_of(run.run_rows[expert], 2);
        if (threadIdx.x >= 32) {
            return;
        }
        int lane = threadIdx.x;
        int first = run.tile_expert[2 * token_tile + 1];
        columns = run.expert_count[expert] - first;
        columns = columns < COLUMNS ? columns : COLUMNS;
        route = lane < columns ? run.expert_list[(int64_t)expert * run.tokens + first + lane] : 0;
        if (lane < TILE_ROWS) {
            TileRow row = row_at(ordinal_at(step, lane));
            bias = bias_of(run, matrix(row).bias, row);
        }
    }

    /* Starts to fill the next stage. */
    __device__ __forceinline__ void start() {
        if (next_tile < tiles) {
            if (expert >= 0) {
                fill();
            }
            if (threadIdx.x < 32) {
                describe();
            }
            next_chunk++;
            if (next_chunk == chunks) {
                next_chunk = 0;
                next_tile += gridDim.x;
                look_up();
            }
            next_slot = next_slot + 1 == run.stages ? 0 : next_slot + 1;
        }
        end_stage_copies();
    }

    /* The bytes of each row that the next stage holds. */
    __device__ __forceinline__ int stage_row_bytes() const {
        int left = row_bytes - next_chunk * run.decode_chunk * group_bytes<BITS>();
        int most = run.decode_chunk * group_bytes<BITS>();
        return left < most ? left : most;
    }

    /* Copies what consecutive rows hold in one go: a row, or a band of rows that SM80 interleaves. */
    __device__ __forceinline__ Copy weights_copy(int index) const {
        int rows = band_rows<BITS>(layout);
        TileRow row = row_at(index * rows);
        Copy copy;
        copy.bytes = row.valid ? rows * stage_row_bytes() : 0;
        copy.from = matrix(row).weight + (int64_t)row.row * row_bytes
                  + (int64_t)next_chunk * run.decode_chunk * group_bytes<BITS>() * rows;
        copy.to = stages + next_slot * stage_bytes + (rows == 1 ? row.place : index) * stride;
        return copy;
    }

    /* The window of 16-byte pieces around the scales (which = 0) or zero points (1) of a row. */
    __device__ __forceinline__ Copy scales_copy(int ordinal, int which) const {
        TileRow row = row_at(ordinal);
        int group = next_chunk * run.decode_chunk;
        int begin = first_block(run, group);
        int end = end_block(run, step, group, groups_of(next_chunk));
        const uint8_t *from;
        int bytes;
        if (which == 0) {
            from = scales_from(run, step, matrix(row).scale, row.row, begin);
            bytes = (end - begin) * scale_bytes(run.spec);
        } else {
            from = zero_points_from<BITS>(run, step, matrix(row).zero_point, row.row, begin);
            bytes = 1;
            if (run.spec.block_size != 0) {
                bytes += (int)(zero_points_from<BITS>(run, step, matrix(row).zero_point, row.row, end - 1) - from);
            }
        }
        Copy copy;
        copy.from = from - misalignment(from);
        copy.bytes = round_up(misalignment(from) + bytes, 16);
        if (!row.valid || (which == 1 && matrix(row).zero_point == nullptr)) {
            copy.bytes = 0;
        }
        uint8_t *scales = stages + next_slot * stage_bytes + TILE_ROWS / band_rows<BITS>(layout) * stride;
        copy.to = which == 0 ? scales + row.place * run.scale_stride
                             : scales + TILE_ROWS * run.scale_stride + row.place * run.zero_point_stride;
        return copy;
    }

    __device__ __forceinline__ void fill() const {
        int runs = TILE_ROWS / band_rows<BITS>(layout);
        int kinds = run.zero_point_stride != 0 ? 2 : 1;
#if __CUDA_ARCH__ >= 900
        if (threadIdx.x < 32) {
            int lane = threadIdx.x;
            Copy weights = {nullptr, nullptr, 0};
            if (lane < runs && aligned) {
                weights = weights_copy(lane);
            }
            Copy scales = lane < TILE_ROWS * kinds ? scales_copy(lane % TILE_ROWS, lane / TILE_ROWS) : Copy{nullptr, nullptr, 0};
            expect_bulk(barriers + next_slot, weights.bytes + scales.bytes);
            __syncwarp();
            copy_bulk(weights, barriers + next_slot);
            copy_bulk(scales, barriers + next_slot);
        }
#else
        int lane = threadIdx.x % 32;
        for (int i = threadIdx.x / 32; i < runs && aligned; i += WARPS) {
            copy_by_warp(weights_copy(i), lane);
        }
        for (int i = threadIdx.x / 32; i < TILE_ROWS * kinds; i += WARPS) {
            copy_by_warp(scales_copy(i % TILE_ROWS, i / TILE_ROWS), lane);
        }
#endif
        if (!aligned) {
            TileRow row = row_at(threadIdx.x / TILE_ROWS);
            const uint8_t *from = matrix(row).weight + (int64_t)row.row * row_bytes;
            copy_unaligned(stages + next_slot * stage_bytes + row.place * stride, from, row_bytes,
                           next_chunk * run.decode_chunk * group_bytes<BITS>(),
                           groups_of(next_chunk) * group_bytes<BITS>(), row.valid, threadIdx.x % TILE_ROWS, TILE_ROWS);
        }
    }

    /* By the first warp. */
    __device__ __forceinline__ void describe() const {
        Info &stage = info(next_slot);
        int lane = threadIdx.x;
        if (lane == 0) {
            stage.tile = expert >= 0 ? next_tile % step.tiles : -1;
            stage.columns = columns;
        }
        if (expert < 0) {
            return;
        }
        if (lane < COLUMNS) {
            stage.route[lane] = route;
            stage.row[lane] = step.matrix == 0 ? route / run.spec.top_k : route;
        }
        if (lane < TILE_ROWS) {
            TileRow row = row_at(ordinal_at(step, lane));
            int block = first_block(run, next_chunk * run.decode_chunk);
            Matrix m = matrix(row);
            stage.scale_at[lane] = row.valid ? misalignment(scales_from(run, step, m.scale, row.row, block)) : -1;
            stage.zero_point_at[lane] =
                row.valid && m.zero_point != nullptr
                    ? misalignment(zero_points_from<BITS>(run, step, m.zero_point, row.row, block))
                    : -1;
            stage.bias[lane] = bias;
        }
    }

    __device__ __forceinline__ RowScales row_scales(int slot, int place, int block, int tile) const {
        const uint8_t *scales = stages + slot * stage_bytes + TILE_ROWS / band_rows<BITS>(layout) * stride;
        const uint8_t *zero_points = scales + TILE_ROWS * run.scale_stride;
        const Info &stage = info(slot);
        RowScales r;
        r.scales = stage.scale_at[place] < 0 ? nullptr : scales + place * run.scale_stride + stage.scale_at[place];
        r.zero_points = stage.zero_point_at[place] < 0
                            ? nullptr
                            : zero_points + place * run.zero_point_stride + stage.zero_point_at[place];
        r.first_block = block;
        r.row_shift = run.spec.block_size == 0 ? tile_row(step, tile, ordinal_at(step, place)).row * BITS % 8 : -1;
        return r;
    }

    /* Where the first group of this warp of the row at a place is. */
    __device__ __forceinline__ const uint8_t *weights_at(int slot, int place) const {
        int rows = band_rows<BITS>(layout);
        const uint8_t *stage = stages + slot * stage_bytes;
        int group = threadIdx.x / 32;
        if (rows == 1) {
            return stage + place * stride + group * group_bytes<BITS>();
        }
        /* Lines of 128 bytes hold two groups of each row of a band. */
        int ordinal = ordinal_at(step, place);
        return stage + ordinal / rows * stride + group / 2 * 128 + ordinal % rows * (128 / rows)
             + group % 2 * group_bytes<BITS>();
    }

    /* Adds a stage to the sums of this warp. SIMPLE: float16 scales of 32 weights or more, and no zero points. */
    template <bool SIMPLE>
    __device__ __forceinline__ void multiply(int slot, int chunk, float total[COLUMN_TILES][4]) const {
        const Info &stage = info(slot);
        int lane = threadIdx.x % 32;
        int warp = threadIdx.x / 32;
        int first = chunk * run.decode_chunk;
        int groups = groups_of(chunk);
        Activations activations = activations_of(run, step);
        const uint16_t *x[COLUMN_TILES];
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            /* Columns that are not in use multiply with some other token's; nobody reads their sums. */
            int column = n * TILE_COLUMNS + lane / 4;
            int64_t row = stage.row[column < stage.columns ? column : 0];
            x[n] = activations.first + row * activations.row_stride + (first + warp) * GROUP + lane % 4 * 8;
        }
        const uint8_t *low = weights_at(slot, lane / 4);
        const uint8_t *high = weights_at(slot, lane / 4 + 8);
        int weights_step = band_rows<BITS>(layout) == 1 ? WARPS * group_bytes<BITS>() : WARPS / 2 * 128;
        RowScales low_scales = row_scales(slot, lane / 4, first_block(run, first), stage.tile);
        RowScales high_scales = row_scales(slot, lane / 4 + 8, first_block(run, first), stage.tile);
        int column_tiles = (stage.columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
        if (SIMPLE) {
            const uint16_t *low_scale = reinterpret_cast<const uint16_t *>(low_scales.scales);
            const uint16_t *high_scale = reinterpret_cast<const uint16_t *>(high_scales.scales);
            bool low_valid = low_scale != nullptr, high_valid = high_scale != nullptr;
            /* Of a row that does not exist, anything but a number that is none. */
            low_scale = low_valid ? low_scale : high_scale;
            high_scale = high_valid ? high_scale : low_scale;
            if (!low_valid && !high_valid) {
                return;
            }
#pragma unroll 4
            for (int g = warp; g < groups; g += WARPS) {
                int block = ((first + g) >> run.block_shift) - low_scales.first_block;
                GroupWeights<IO, BITS> weights;
                weights.load(low, high, 1 << (BITS - 1), 1 << (BITS - 1), low_valid ? half_to_float(low_scale[block]) : 0.0f,
                             high_valid ? half_to_float(high_scale[block]) : 0.0f, -1);
                multiply_columns(weights, x, activations.part_stride, column_tiles, total);
                low += weights_step;
                high += weights_step;
            }
            return;
        }
        for (int g = warp; g < groups; g += WARPS) {
            int halves = run.block_shift < 0 ? 2 : 1;
            for (int half = 0; half < halves; half++) {
                int block = halves == 2 ? 2 * (first + g) + half : (first + g) >> run.block_shift;
                if (block < step.blocks) {
                    GroupWeights<IO, BITS> weights;
                    weights.load(low, high, low_scales.template zero_point<BITS>(block),
                                 high_scales.template zero_point<BITS>(block),
                                 low_scales.scale(run.spec.scale_type, block),
                                 high_scales.scale(run.spec.scale_type, block), halves == 2 ? half : -1);
                    const uint16_t *again[COLUMN_TILES];
#pragma unroll
                    for (int n = 0; n < COLUMN_TILES; n++) {
                        again[n] = x[n];
                    }
                    multiply_columns(weights, again, activations.part_stride, column_tiles, total);
                }
            }
#pragma unroll
            for (int n = 0; n < COLUMN_TILES; n++) {
                x[n] += WARPS * GROUP;
            }
            low += weights_step;
            high += weights_step;
        }
    }

    /* Moves on to the next group of the warp. */
    __device__ __forceinline__ static void multiply_columns(const GroupWeights<IO, BITS> &weights,
                                                            const uint16_t *x[COLUMN_TILES], int64_t part_stride,
                                                            int column_tiles, float total[COLUMN_TILES][4]) {
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            if (COLUMN_TILES == 1 || n < column_tiles) {
                uint4 values[PARTS];
#pragma unroll
                for (int part = 0; part < PARTS; part++) {
                    values[part] = __ldg(reinterpret_cast<const uint4 *>(x[n] + part * part_stride));
                }
                weights.multiply(values, total[n]);
                x[n] += WARPS * GROUP;
            }
        }
    }

    /* Adds the warps' sums and stores the tile; all threads. */
    __device__ __forceinline__ void finish(int slot, const float total[COLUMN_TILES][4]) const {
        const Info &stage = info(slot);
        int lane = threadIdx.x % 32;
        float *mine = sums + threadIdx.x / 32 * TILE_ROWS * COLUMNS;
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            float *at = mine + lane / 4 * COLUMNS + n * TILE_COLUMNS + lane % 4 * 2;
            at[0] = total[n][0];
            at[1] = total[n][1];
            at[8 * COLUMNS] = total[n][2];
            at[8 * COLUMNS + 1] = total[n][3];
        }
        __syncthreads();
        for (int i = threadIdx.x; i < TILE_ROWS / 2 * COLUMNS; i += EB_CUDA_THREADS) {
            /* The places run fastest: what they store is next to each other. */
            int place = i % 8;
            int column = i / 8;
            if (column < stage.columns) {
                float low = 0.0f, high = 0.0f;
#pragma unroll
                for (int warp = 0; warp < WARPS; warp++) {
                    low += sums[(warp * TILE_ROWS + place) * COLUMNS + column];
                    high += sums[(warp * TILE_ROWS + place + 8) * COLUMNS + column];
                }
                store_pair<IO, BITS>(run, step, stage.tile, place, stage.route[column], low + stage.bias[place],
                                     high + stage.bias[place + 8]);
            }
        }
    }

    __device__ __forceinline__ void compute() {
        for (int i = 0; i < run.stages - 1; i++) {
            start();
        }
        bool simple = run.spec.scale_type == EB_FLOAT16 && run.block_shift >= 0 && run.zero_point_stride == 0;
        float total[COLUMN_TILES][4] = {};
        int chunk = 0;
        int slot = 0;
        unsigned phases = 0;
        for (int tile = blockIdx.x; tile < tiles;) {
            await_stage_copies(run.stages - 2);
            __syncthreads();
            /* Everyone has left the stage before this one, so its memory can be filled. */
            start();
            bool mine = info(slot).tile >= 0;
            if (mine) {
                await_bulk(barriers + slot, phases >> slot & 1);
                phases ^= 1u << slot;
                if (simple) {
                    multiply<true>(slot, chunk, total);
                } else {
                    multiply<false>(slot, chunk, total);
                }
            }
            if (++chunk == chunks) {
                if (mine) {
                    finish(slot, total);
                }
#pragma unroll
                for (int n = 0; n < COLUMN_TILES; n++) {
                    total[n][0] = total[n][1] = total[n][2] = total[n][3] = 0.0f;
                }
                chunk = 0;
                tile += gridDim.x;
            }
            slot = slot + 1 == run.stages ? 0 : slot + 1;
        }
    }
};

template <int IO, int BITS, int COLUMN_TILES>
__device__ __forceinline__ void decode_experts(const eb_cuda_run &run) {
    extern __shared__ __align__(128) uint8_t shared[];
    Decoder<IO, BITS, COLUMN_TILES>(run, shared).compute();
}

#endif
