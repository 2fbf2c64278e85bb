/*
 * Few tokens for each expert: every weight is read once and multiplied with all of an expert's tokens. Bound by memory.
 *
 * A block takes tiles of 16 rows of one expert, one after the other. Two of its warps stream whole rows through shared memory
 * (long reads of consecutive bytes, which PCIe needs as much as device memory does); the others share the groups of a stage
 * among them, and add their sums in a fixed order.
 */
#ifndef EXPERTBANK_DECODE_CUH
#define EXPERTBANK_DECODE_CUH

#include "decode_stage.cuh"

template <int IO, int BITS, int COLUMN_TILES>
struct Decoder {
    static constexpr int PARTS = Numeric<IO>::PARTS;
    using Layout = DecodeLayout<BITS, COLUMN_TILES>;
    static constexpr int COLUMNS = Layout::COLUMNS;
    using Info = typename Layout::Info;

    /* Groups that a warp multiplies together, so that the loads of all are under way at once. */
    static constexpr int AT_ONCE = COLUMN_TILES == 1 ? 4 : 1;

    const Layout &at;
    const eb_cuda_run &run;
    Activations activations;
    int group_at;               /* of this lane's weights of this warp's first group, in a row */
    int weights_step;           /* from one group of the warp to its next */
    bool simple;                /* float16 scales of 32 weights or more, and no zero points */

    __device__ __forceinline__ Decoder(const Layout &layout) : at(layout), run(layout.run) {
        activations = activations_of(run, at.step);
        int group = threadIdx.x / 32;
        group_at = threadIdx.x % 4 * (group_bytes<BITS>() / 4);
        /* Lines of 128 bytes hold two groups of each row of a band. */
        group_at += at.band == 1 ? group * group_bytes<BITS>() : group / 2 * 128 + group % 2 * group_bytes<BITS>();
        weights_step = at.band == 1 ? WARPS * group_bytes<BITS>() : WARPS / 2 * 128;
        simple = run.spec.scale_type == EB_FLOAT16 && run.block_shift >= 0 && run.zero_point_stride == 0;
    }

    /* Adds a stage to the sums of this warp. */
    __device__ __forceinline__ void multiply(int slot, int chunk, float total[COLUMN_TILES][4]) const {
        const Info &stage = at.info(slot);
        int lane = threadIdx.x % 32;
        int first = chunk * run.decode_chunk;
        const uint16_t *x[COLUMN_TILES];
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            /* Columns that are not in use multiply with some other token's; nobody reads their sums. */
            int column = n * TILE_COLUMNS + lane / 4;
            int64_t row = stage.row[column < stage.columns ? column : 0];
            x[n] = activations.first + row * activations.row_stride + (first + (int)threadIdx.x / 32) * GROUP + lane % 4 * 8;
        }
        const uint8_t *low = at.stage(slot) + stage.weight_at[lane / 4] + group_at;
        const uint8_t *high = at.stage(slot) + stage.weight_at[lane / 4 + 8] + group_at;
        if (simple && stage.whole) {
            multiply_simple(slot, chunk, low, high, x, total);
        } else {
            multiply_any(slot, chunk, low, high, x, total);
        }
    }

    __device__ __forceinline__ void multiply_simple(int slot, int chunk, const uint8_t *low, const uint8_t *high,
                                                    const uint16_t *x[COLUMN_TILES], float total[COLUMN_TILES][4]) const {
        const Info &stage = at.info(slot);
        int place = threadIdx.x % 32 / 4;
        int column_tiles = (stage.columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
        const uint16_t *low_scale = reinterpret_cast<const uint16_t *>(at.stage(slot) + stage.scale_at[place]);
        const uint16_t *high_scale = reinterpret_cast<const uint16_t *>(at.stage(slot) + stage.scale_at[place + 8]);
        int first = chunk * run.decode_chunk;
        int begin = first >> run.block_shift;
        int end = first + at.groups_of(chunk);
#pragma unroll(4 / AT_ONCE)
        for (int g = first + threadIdx.x / 32; g < end; g += AT_ONCE * WARPS) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                /* Behind the last group the one that is at hand is multiplied again, and not added. */
                bool counts = i == 0 || g + i * WARPS < end;
                int ahead = counts ? i : 0;
                int block = ((g + ahead * WARPS) >> run.block_shift) - begin;
                GroupWeights<IO, BITS> weights;
                weights.load(low + ahead * weights_step, high + ahead * weights_step, 1 << (BITS - 1), 1 << (BITS - 1),
                             half_to_float(low_scale[block]), half_to_float(high_scale[block]), -1);
                multiply_columns(weights, x, ahead * WARPS * GROUP, column_tiles, counts, total);
            }
#pragma unroll
            for (int n = 0; n < COLUMN_TILES; n++) {
                x[n] += AT_ONCE * WARPS * GROUP;
            }
            low += AT_ONCE * weights_step;
            high += AT_ONCE * weights_step;
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

    __device__ __forceinline__ void multiply_any(int slot, int chunk, const uint8_t *low, const uint8_t *high,
                                              const uint16_t *x[COLUMN_TILES], float total[COLUMN_TILES][4]) const {
        int place = threadIdx.x % 32 / 4;
        int column_tiles = (at.info(slot).columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
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
                    weights.load(low, high, low_scales.template zero_point<BITS>(block),
                                 high_scales.template zero_point<BITS>(block),
                                 low_scales.scale(run.spec.scale_type, block),
                                 high_scales.scale(run.spec.scale_type, block), halves == 2 ? half : -1);
                    multiply_columns(weights, x, 0, column_tiles, true, total);
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

    /* offset: of the group's activations from x. counts: whether it is added. */
    __device__ __forceinline__ void multiply_columns(const GroupWeights<IO, BITS> &weights,
                                                     const uint16_t *const x[COLUMN_TILES], int offset, int column_tiles,
                                                     bool counts, float total[COLUMN_TILES][4]) const {
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            if (COLUMN_TILES == 1 || n < column_tiles) {
                uint4 values[PARTS];
#pragma unroll
                for (int part = 0; part < PARTS; part++) {
                    values[part] = *reinterpret_cast<const uint4 *>(x[n] + offset + part * activations.part_stride);
                }
                weights.multiply(values, total[n], counts);
            }
        }
    }

    __device__ __forceinline__ float bias(int slot, int place) const {
        int offset = at.info(slot).bias_at[place];
        return offset < 0 ? 0.0f : load_element(run.spec.io_type, at.stage(slot) + offset, 0);
    }

    /* Adds the warps' sums and stores the tile; all warps that multiply. `buffer` alternates. */
    __device__ __forceinline__ void finish(int slot, int buffer, const float total[COLUMN_TILES][4]) const {
        const Info &stage = at.info(slot);
        int lane = threadIdx.x % 32;
        float *sums = at.sums + buffer * WARPS * TILE_ROWS * COLUMNS;
        float *mine = sums + threadIdx.x / 32 * TILE_ROWS * COLUMNS;
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            float *to = mine + lane / 4 * COLUMNS + n * TILE_COLUMNS + lane % 4 * 2;
            to[0] = total[n][0];
            to[1] = total[n][1];
            to[8 * COLUMNS] = total[n][2];
            to[8 * COLUMNS + 1] = total[n][3];
        }
        sync_multipliers();
        for (int i = threadIdx.x; i < TILE_ROWS / 2 * stage.columns; i += EB_CUDA_THREADS) {
            /* The places run fastest: what they store is next to each other. */
            int place = i % 8;
            int column = i / 8;
            float low = bias(slot, place), high = bias(slot, place + 8);
#pragma unroll
            for (int warp = 0; warp < WARPS; warp++) {
                low += sums[(warp * TILE_ROWS + place) * COLUMNS + column];
                high += sums[(warp * TILE_ROWS + place + 8) * COLUMNS + column];
            }
            store_pair<IO, BITS>(run, at.step, stage.tile, place, stage.route[column], low, high);
        }
    }
};

#if __CUDA_ARCH__ >= 900

/* The last warps fill, the others multiply; barriers hand the stages over. */
template <int IO, int BITS, int COLUMN_TILES>
__device__ __forceinline__ void decode_experts(const eb_cuda_run &run) {
    DYNAMIC_SHARED(shared);
    DecodeLayout<BITS, COLUMN_TILES> at(run, shared);
    if ((int)threadIdx.x < run.stages) {
        init_barrier(at.full + threadIdx.x, 32);
        init_barrier(at.empty + threadIdx.x, 32 * WARPS);
    }
    fence_barriers();
    /* What fc2 copies does not depend on fc1, only what it multiplies with: it starts to copy while fc1 still ends. */
    bool early = run.step == EB_CUDA_FC2;
    if (!early) {
        await_the_kernel_before();
    }
    let_the_next_kernel_start();
    at.find_all();
    __syncthreads();
    if (threadIdx.x >= EB_CUDA_THREADS) {
        DecodeFiller<BITS, COLUMN_TILES> filler(at, threadIdx.x / 32 - WARPS, EB_CUDA_FILLING_WARPS);
        int lane = threadIdx.x % 32;
        for (; !filler.done(); filler.advance()) {
            int slot = filler.slot;
            typename DecodeFiller<BITS, COLUMN_TILES>::Span first, second;
            filler.spans(lane, first, second);
            await_barrier(at.empty + slot, filler.phase() ^ 1);
            expect_bytes(at.full + slot, first.bytes + second.bytes);
            copy_bulk(first.copy(at.stage(slot)), at.full + slot);
            copy_bulk(second.copy(at.stage(slot)), at.full + slot);
            filler.describe(first, second);
            filler.copy_bytes(lane, 32);
            arrive(at.full + slot);
        }
        return;
    }
    if (early) {
        await_the_kernel_before();
    }
    const Decoder<IO, BITS, COLUMN_TILES> decoder(at);
    float total[COLUMN_TILES][4] = {};
    int slot = 0;
    int buffer = 0;
    unsigned phases = 0;
    for (int tile = blockIdx.x; tile < at.tiles; tile += gridDim.x) {
        for (int chunk = 0; chunk < at.chunks; chunk++) {
            await_barrier(at.full + slot, phases >> slot & 1);
            phases ^= 1u << slot;
            if (at.info(slot).tile >= 0) {
                decoder.multiply(slot, chunk, total);
                if (chunk == at.chunks - 1) {
                    decoder.finish(slot, buffer, total);
                    buffer ^= 1;
                }
            }
            arrive(at.empty + slot);
            slot = at.next_slot(slot);
        }
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            total[n][0] = total[n][1] = total[n][2] = total[n][3] = 0.0f;
        }
    }
}

#else

/* All warps fill, some stages ahead of what they multiply. */
template <int BITS, int COLUMN_TILES>
__device__ __forceinline__ void fill_next(DecodeFiller<BITS, COLUMN_TILES> &filler) {
    if (!filler.done()) {
        int lane = threadIdx.x % 32;
        typename DecodeFiller<BITS, COLUMN_TILES>::Span first, second;
        filler.spans(lane, first, second);
        if (threadIdx.x < 32) {
            filler.describe(first, second);
        }
        filler.copy_bytes(threadIdx.x, EB_CUDA_DECODE_THREADS);
        /* What are a lane's copies elsewhere are a warp's here, one after the other. */
        for (int i = threadIdx.x / 32; i < 32; i += WARPS + EB_CUDA_FILLING_WARPS) {
            filler.spans(i, first, second);
            copy_by_warp(first.copy(filler.at.stage(filler.slot)), lane);
            copy_by_warp(second.copy(filler.at.stage(filler.slot)), lane);
        }
        filler.advance();
    }
    end_stage_copies();
}

template <int IO, int BITS, int COLUMN_TILES>
__device__ __forceinline__ void decode_experts(const eb_cuda_run &run) {
    DYNAMIC_SHARED(shared);
    DecodeLayout<BITS, COLUMN_TILES> at(run, shared);
    at.find_all();
    __syncthreads();
    DecodeFiller<BITS, COLUMN_TILES> filler(at, 0, 1);
    const Decoder<IO, BITS, COLUMN_TILES> decoder(at);
    for (int i = 0; i < run.stages - 1; i++) {
        fill_next(filler);
    }
    float total[COLUMN_TILES][4] = {};
    int slot = 0;
    int buffer = 0;
    for (int tile = blockIdx.x; tile < at.tiles; tile += gridDim.x) {
        for (int chunk = 0; chunk < at.chunks; chunk++) {
            await_stage_copies(run.stages - 2);
            __syncthreads();
            /* Everyone has left the stage before this one, so its memory can be filled. */
            fill_next(filler);
            if (threadIdx.x < EB_CUDA_THREADS && at.info(slot).tile >= 0) {
                decoder.multiply(slot, chunk, total);
                if (chunk == at.chunks - 1) {
                    decoder.finish(slot, buffer, total);
                    buffer ^= 1;
                }
            }
            slot = at.next_slot(slot);
        }
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            total[n][0] = total[n][1] = total[n][2] = total[n][3] = 0.0f;
        }
    }
}

#endif

#endif
