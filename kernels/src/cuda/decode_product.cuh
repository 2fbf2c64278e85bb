/*
 * How the warps of decode multiply a stage: they share its groups, a group of 32 weights of 16 rows with all columns at a time,
 * and add their sums in a fixed order.
 */
#ifndef EXPERTBANK_DECODE_PRODUCT_CUH
#define EXPERTBANK_DECODE_PRODUCT_CUH

#include "decode_stage.cuh"

template <int IO, int BITS, int COLUMN_TILES>
struct Decoder {
    static constexpr int PARTS = Numeric<IO>::PARTS;
    using Layout = DecodeLayout<BITS, COLUMN_TILES>;
    static constexpr int COLUMNS = Layout::COLUMNS;
    using Info = typename Layout::Info;

    /*
     * Groups whose activations a warp has read ahead: as many as it has registers for. A load takes longer than a product, and
     * there are too few warps to hide it.
     */
    static constexpr int AHEAD = COLUMN_TILES * PARTS == 1 ? 4 : 0;

    /* Bytes from one group of a warp to its next. In bands, lines of 128 bytes hold two groups of each row. */
    static constexpr int LINE = 128;
    static constexpr int ROW_STEP = WARPS * group_bytes<BITS>();
    static constexpr int BAND_STEP = WARPS / 2 * LINE;

    const Layout &at;
    const eb_cuda_run &run;
    Activations activations;
    int group_at;               /* of this lane's weights of this warp's first group, in a row */
    int weights_step;           /* from one group of the warp to its next */
    bool equal_steps;           /* float16 scales for rows or for blocks of 32, 64 or 128, and no zero points */

    __device__ __forceinline__ Decoder(const Layout &layout) : at(layout), run(layout.run) {
        activations = activations_of(run, at.step);
        int group = threadIdx.x / 32;
        group_at = threadIdx.x % 4 * (group_bytes<BITS>() / 4);
        group_at += at.band == 1 ? group * group_bytes<BITS>() : group / 2 * LINE + group % 2 * group_bytes<BITS>();
        weights_step = at.band == 1 ? ROW_STEP : BAND_STEP;
        bool blocks = (run.block_shift >= 0 && run.block_shift <= 2) || run.spec.block_size == 0;
        equal_steps = blocks && run.spec.scale_type == EB_FLOAT16 && run.zero_point_stride == 0;
    }

    /* The activations of a group. */
    struct Values {
        uint4 of[COLUMN_TILES][PARTS];
    };

    /* Where a lane reads what its warp multiplies next, and what it has read already. */
    struct Lane {
        const uint16_t *x[COLUMN_TILES];
        const uint8_t *low;             /* weights of the row at place lane / 4, and 8 places on */
        const uint8_t *high;
        const uint16_t *low_scale;
        const uint16_t *high_scale;
        int column_tiles;
        int groups;                     /* of the warp */
        bool even;                      /* for multiply_even */
        Values ahead[AHEAD > 0 ? AHEAD : 1];
    };

    /* Finds out where the lane reads, and reads ahead; also while the sums of the stage before are not stored yet. */
    __device__ __forceinline__ void begin(int slot, int chunk, Lane &lane) const {
        const Info &stage = at.info(slot);
        int place = threadIdx.x % 32 / 4;
        int warp = threadIdx.x / 32;
        int first = chunk * run.decode_chunk;
        lane.column_tiles = (stage.columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            /* Columns that are not in use multiply with some other token's; nobody reads their sums. */
            int column = n * TILE_COLUMNS + place;
            int64_t row = stage.row[column < stage.columns ? column : 0];
            lane.x[n] = activations.first + row * activations.row_stride + (first + warp) * GROUP + threadIdx.x % 4 * 8;
        }
        lane.groups = stage.tile < 0 ? 0 : (at.groups_of(chunk) - warp + WARPS - 1) / WARPS;
        lane.even = equal_steps && stage.whole;
        if (lane.even) {
            read_ahead(lane);
        }
        lane.low = at.stage(slot) + stage.weight_at[place] + group_at;
        lane.high = at.stage(slot) + stage.weight_at[place + 8] + group_at;
        int scale = warp >> (run.block_shift & 31);
        lane.low_scale = reinterpret_cast<const uint16_t *>(at.stage(slot) + stage.scale_at[place]) + scale;
        lane.high_scale = reinterpret_cast<const uint16_t *>(at.stage(slot) + stage.scale_at[place + 8]) + scale;
    }

    /* Adds a stage that has begun to the sums of this warp. */
    __device__ __forceinline__ void multiply(int slot, int chunk, Lane &lane, float total[COLUMN_TILES][4]) const {
        if (lane.even) {
            multiply_even(lane, total);
        } else {
            multiply_any(slot, chunk, lane, total);
        }
    }

    /* Reads a column's activations of a group of the warp, so many after its next. */
    __device__ __forceinline__ void read_column(const Lane &lane, int n, int group, uint4 values[PARTS]) const {
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            values[part] =
                *reinterpret_cast<const uint4 *>(lane.x[n] + group * WARPS * GROUP + part * activations.part_stride);
        }
    }

    __device__ __forceinline__ void read(const Lane &lane, int group, Values &values) const {
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            if (COLUMN_TILES == 1 || n < lane.column_tiles) {
                read_column(lane, n, group, values.of[n]);
            }
        }
    }

    __device__ __forceinline__ void read_ahead(Lane &lane) const {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (i < lane.groups) {
                read(lane, i, lane.ahead[i]);
            }
        }
    }

    /* Multiplies a group with activations that were read ahead. */
    template <class Weights>
    __device__ __forceinline__ void multiply_columns(const Lane &lane, const Weights &weights, const Values &values,
                                                     float total[COLUMN_TILES][4]) const {
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            if (COLUMN_TILES == 1 || n < lane.column_tiles) {
                weights.multiply(values.of[n], total[n]);
            }
        }
    }

    /* Multiplies the next group. */
    template <class Weights>
    __device__ __forceinline__ void multiply_next(const Lane &lane, const Weights &weights,
                                                  float total[COLUMN_TILES][4]) const {
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            if (COLUMN_TILES == 1 || n < lane.column_tiles) {
                uint4 values[PARTS];
                read_column(lane, n, 0, values);
                weights.multiply(values, total[n]);
            }
        }
    }

    /* Weights in even steps, at offsets from the next group's. */
    __device__ __forceinline__ GroupWeights<IO, BITS> weights_at(const Lane &lane, int weights_offset, int scale_offset) const {
        GroupWeights<IO, BITS> weights;
        weights.load(lane.low + weights_offset, lane.high + weights_offset, 1 << (BITS - 1), 1 << (BITS - 1),
                     half_to_float(lane.low_scale[scale_offset]), half_to_float(lane.high_scale[scale_offset]), -1);
        return weights;
    }

    __device__ __forceinline__ void move_on(Lane &lane, int groups, int weights_step, int scale_step) const {
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            lane.x[n] += groups * WARPS * GROUP;
        }
        lane.low += groups * weights_step;
        lane.high += groups * weights_step;
        lane.low_scale += groups * scale_step;
        lane.high_scale += groups * scale_step;
    }

    /* One group after the other; the compiler has the loads of some under way at once. */
    __device__ __forceinline__ void multiply_each(Lane &lane, int weights_step, int scale_step,
                                                  float total[COLUMN_TILES][4]) const {
        int groups = lane.groups;
#pragma unroll 4
        for (int i = 0; i < groups; i++) {
            multiply_next(lane, weights_at(lane, 0, 0), total);
            move_on(lane, 1, weights_step, scale_step);
        }
    }

    /*
     * With activations that were read ahead. Weights and scales of a warp's groups follow each other at steps that the compiler
     * knows: computing addresses would take a fifth of the instructions.
     */
    template <int WEIGHTS_STEP, int SCALE_STEP>
    __device__ __forceinline__ void multiply_steps(Lane &lane, float total[COLUMN_TILES][4]) const {
        int left = lane.groups;
#pragma unroll 1
        for (; left >= AHEAD; left -= AHEAD) {
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                multiply_columns(lane, weights_at(lane, i * WEIGHTS_STEP, i * SCALE_STEP), lane.ahead[i], total);
                if (AHEAD + i < left) {
                    read(lane, AHEAD + i, lane.ahead[i]);
                }
            }
            move_on(lane, AHEAD, WEIGHTS_STEP, SCALE_STEP);
        }
#pragma unroll
        for (int i = 0; i < AHEAD - 1; i++) {
            if (i < left) {
                multiply_columns(lane, weights_at(lane, i * WEIGHTS_STEP, i * SCALE_STEP), lane.ahead[i], total);
            }
        }
    }

    template <int SCALE_STEP>
    __device__ __forceinline__ void multiply_steps(Lane &lane, float total[COLUMN_TILES][4]) const {
        if (BITS == 2 || at.band == 1) {
            multiply_steps<ROW_STEP, SCALE_STEP>(lane, total);
        } else {
            multiply_steps<BAND_STEP, SCALE_STEP>(lane, total);
        }
    }

    __device__ __forceinline__ void multiply_even(Lane &lane, float total[COLUMN_TILES][4]) const {
        if constexpr (AHEAD == 0) {
            multiply_each(lane, weights_step, WARPS >> run.block_shift, total);
        } else {
            switch (run.block_shift) {
            case 0: multiply_steps<WARPS>(lane, total); break;
            case 1: multiply_steps<WARPS / 2>(lane, total); break;
            case 2: multiply_steps<WARPS / 4>(lane, total); break;
            default: multiply_steps<0>(lane, total); break;
            }
        }
    }

    __device__ __forceinline__ RowScales row_scales(int slot, int place, int block) const {
        const Info &stage = at.info(slot);
        RowScales r;
        r.scales = stage.scale_at[place] < 0 ? nullptr : at.stage(slot) + stage.scale_at[place];
        r.zero_points = stage.zero_point_at[place] < 0 ? nullptr : at.stage(slot) + stage.zero_point_at[place];
        r.first_block = block;
        r.row_shift = run.spec.block_size == 0 ? tile_row(at.step, stage.tile, ordinal_at(at.step, place)).row * BITS % 8 : -1;
        return r;
    }

    __device__ __forceinline__ void multiply_any(int slot, int chunk, Lane &lane, float total[COLUMN_TILES][4]) const {
        int place = threadIdx.x % 32 / 4;
        int first = chunk * run.decode_chunk;
        int end = first + at.groups_of(chunk);
        RowScales low_scales = row_scales(slot, place, first_block(run, first));
        RowScales high_scales = row_scales(slot, place + 8, first_block(run, first));
        int halves = run.block_shift < 0 ? 2 : 1;
        for (int g = first + threadIdx.x / 32; g < end; g += WARPS) {
            for (int half = 0; half < halves; half++) {
                int block = halves == 2 ? 2 * g + half : g >> run.block_shift;
                if (block < at.step.blocks) {
                    GroupWeights<IO, BITS> weights;
                    weights.load(lane.low, lane.high, low_scales.template zero_point<BITS>(block),
                                 high_scales.template zero_point<BITS>(block),
                                 low_scales.scale(run.spec.scale_type, block),
                                 high_scales.scale(run.spec.scale_type, block), halves == 2 ? half : -1);
                    multiply_next(lane, weights, total);
                }
            }
            move_on(lane, 1, weights_step, 0);
        }
    }

    __device__ __forceinline__ void store_sums(int buffer, const float total[COLUMN_TILES][4]) const {
        int lane = threadIdx.x % 32;
        float *mine = at.sums_of(buffer) + threadIdx.x / 32 * TILE_ROWS * COLUMNS;
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            float *to = mine + lane / 4 * COLUMNS + n * TILE_COLUMNS + lane % 4 * 2;
            to[0] = total[n][0];
            to[1] = total[n][1];
            to[8 * COLUMNS] = total[n][2];
            to[8 * COLUMNS + 1] = total[n][3];
        }
    }

    /* Adds the warps' sums and stores the tile, where no warp of its own does; all warps that multiply. `buffer` alternates. */
    __device__ __forceinline__ void finish(int slot, int buffer, const float total[COLUMN_TILES][4]) const {
        const Info &stage = at.info(slot);
        store_sums(buffer, total);
        sync_multipliers();
        for (int i = threadIdx.x; i < TILE_ROWS / 2 * stage.columns; i += EB_CUDA_THREADS) {
            /* The places run fastest: what they store is next to each other. */
            int place = i % 8;
            int column = i / 8;
            float low = at.bias(slot, place), high = at.bias(slot, place + 8);
            at.add_sums(buffer, place, column, low, high);
            store_pair<IO, BITS>(run, at.step, stage.tile, place, stage.route[column], low, high);
        }
    }

    __device__ __forceinline__ void clear(float total[COLUMN_TILES][4]) const {
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            total[n][0] = total[n][1] = total[n][2] = total[n][3] = 0.0f;
        }
    }

    /* Multiplies a stage, and finishes its tile if it is the last; all warps that multiply. */
    __device__ __forceinline__ void multiply_stage(int slot, int chunk, int &buffer, float total[COLUMN_TILES][4]) const {
        if (at.info(slot).tile < 0) {
            return;
        }
        Lane lane;
        begin(slot, chunk, lane);
        multiply(slot, chunk, lane, total);
        if (chunk == at.chunks - 1) {
            finish(slot, buffer, total);
            buffer ^= 1;
            clear(total);
        }
    }
};

#endif
