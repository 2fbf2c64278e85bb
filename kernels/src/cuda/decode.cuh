/*
 * Few tokens for each expert: every weight is read once and multiplied with all of an expert's tokens. Bound by memory.
 *
 * A block takes tiles of 16 rows of one expert, one after the other. A warp of its own streams whole rows through shared
 * memory (long reads of consecutive bytes, which PCIe needs as much as device memory does); the others share the groups of a
 * stage among them, and add their sums in a fixed order.
 */
#ifndef EXPERTBANK_DECODE_CUH
#define EXPERTBANK_DECODE_CUH

#include "stage.cuh"

/* Warps that multiply. */
#define WARPS (EB_CUDA_THREADS / 32)
#define MAX_STAGES EB_CUDA_MAX_STAGES

/* Columns of one tensor-core product. */
#define TILE_COLUMNS 8

/* What whoever multiplies a stage has to know of it, written by whoever fills it. Offsets are in bytes. */
template <int COLUMN_TILES>
struct StageInfo {
    static constexpr int COLUMNS = COLUMN_TILES * TILE_COLUMNS;
    int tile;                       /* of rows; -1: nothing to do */
    int columns;                    /* in use */
    int whole;                      /* every row exists */
    int route[COLUMNS];
    int row[COLUMNS];               /* of the activations */
    int scale_at[TILE_ROWS];        /* by place, in the stage's scales; -1: there is no such row */
    int zero_point_at[TILE_ROWS];   /* in the stage's zero points; -1: there are none */
    float bias[TILE_ROWS];
};

/* How tiles and stages are laid out, alike for those who fill and those who multiply. */
template <int BITS, int COLUMN_TILES>
struct DecodeLayout {
    static constexpr int COLUMNS = COLUMN_TILES * TILE_COLUMNS;
    using Info = StageInfo<COLUMN_TILES>;
    static_assert(sizeof(Info) <= EB_CUDA_INFO_BYTES(COLUMNS), "plan.c reserves too little");

    const eb_cuda_run &run;
    Step step;
    int band;                       /* rows that are copied in one go: a row, or those that SM80 interleaves */
    int row_bytes;
    int chunks;
    int tiles;                      /* of rows and tokens */
    int stride;                     /* of bands: their rows' loads are in different banks */
    int stage_bytes;
    uint64_t *full;
    uint64_t *empty;
    uint8_t *infos;
    float *sums;                    /* [2, warps, 16, columns] */
    uint8_t *stages;

    __device__ __forceinline__ DecodeLayout(const eb_cuda_run &run, uint8_t *shared) : run(run), step(step_of(run.spec, run.step)) {
        band = band_rows<BITS>(run.spec.layout);
        row_bytes = step.columns * BITS / 8;
        chunks = (step.groups + run.decode_chunk - 1) / run.decode_chunk;
        tiles = run.tile_count[0] * step.tiles;
        stride = band * run.decode_chunk * group_bytes<BITS>() + (BITS == 8 ? 32 : 16);
        stage_bytes = TILE_ROWS / band * stride + TILE_ROWS * (run.scale_stride + run.zero_point_stride);
        full = reinterpret_cast<uint64_t *>(shared);
        empty = full + MAX_STAGES;
        infos = shared + 128;
        sums = reinterpret_cast<float *>(infos + MAX_STAGES * EB_CUDA_INFO_BYTES(COLUMNS));
        stages = reinterpret_cast<uint8_t *>(sums + 2 * WARPS * TILE_ROWS * COLUMNS);
    }

    __device__ __forceinline__ int groups_of(int chunk) const {
        int left = step.groups - chunk * run.decode_chunk;
        return left < run.decode_chunk ? left : run.decode_chunk;
    }

    __device__ __forceinline__ Info &info(int slot) const {
        return *reinterpret_cast<Info *>(infos + slot * EB_CUDA_INFO_BYTES(COLUMNS));
    }

    __device__ __forceinline__ uint8_t *scales(int slot) const {
        return stages + slot * stage_bytes + TILE_ROWS / band * stride;
    }

    __device__ __forceinline__ uint8_t *zero_points(int slot) const {
        return scales(slot) + TILE_ROWS * run.scale_stride;
    }

    __device__ __forceinline__ int next_slot(int slot) const {
        return slot + 1 == run.stages ? 0 : slot + 1;
    }
};

/* Fills stages, one tile after the other. */
template <int BITS, int COLUMN_TILES>
struct DecodeFiller {
    using Layout = DecodeLayout<BITS, COLUMN_TILES>;
    static constexpr int COLUMNS = Layout::COLUMNS;

    const Layout &at;
    const eb_cuda_run &run;
    int tile;                   /* of rows and tokens */
    int row_tile;
    int chunk;
    int slot;
    int expert;                 /* -1: of another stage of the run */
    Matrix own;
    Matrix fc3;
    int columns;
    int route;                  /* of this lane's column */

    __device__ __forceinline__ DecodeFiller(const Layout &layout) : at(layout), run(layout.run) {
        tile = blockIdx.x;
        chunk = 0;
        slot = 0;
        look_up();
    }

    __device__ __forceinline__ bool done() const {
        return tile >= at.tiles;
    }

    __device__ __forceinline__ TileRow row_at(int ordinal) const {
        return tile_row(at.step, row_tile, ordinal);
    }

    /* Field by field: a choice between structures would put them in memory. */
    __device__ __forceinline__ Matrix matrix(const TileRow &row) const {
        return {row.fc3 ? fc3.weight : own.weight, row.fc3 ? fc3.scale : own.scale,
                row.fc3 ? fc3.zero_point : own.zero_point, row.fc3 ? fc3.bias : own.bias};
    }

    /* Finds the tensors and routes of the tile. */
    __device__ __forceinline__ void look_up() {
        if (done()) {
            return;
        }
        int token_tile = tile / at.step.tiles;
        row_tile = tile - token_tile * at.step.tiles;
        int2 entry = reinterpret_cast<const int2 *>(run.tile_expert)[token_tile];
        expert = entry.x >= run.first_expert && entry.x < run.end_expert ? entry.x : -1;
        if (expert >= 0) {
            own = matrix_of(run.run_rows[expert], at.step.matrix);
            fc3 = at.step.arrangement == ROWS_FC3 ? matrix_of(run.run_rows[expert], 2) : own;
            columns = run.expert_count[expert] - entry.y;
            columns = columns < COLUMNS ? columns : COLUMNS;
            int lane = threadIdx.x % 32;
            route = lane < columns ? run.expert_list[(int64_t)expert * run.tokens + entry.y + lane] : 0;
        }
    }

    /* After the stage has been filled. */
    __device__ __forceinline__ void advance() {
        slot = at.next_slot(slot);
        if (++chunk == at.chunks) {
            chunk = 0;
            tile += gridDim.x;
            look_up();
        }
    }

    /* Bytes of a row before the stage's, and in it. */
    __device__ __forceinline__ int offset() const {
        return chunk * run.decode_chunk * group_bytes<BITS>();
    }

    __device__ __forceinline__ int bytes() const {
        int left = at.row_bytes - offset();
        int most = run.decode_chunk * group_bytes<BITS>();
        return left < most ? left : most;
    }

    /* The weights of a band of rows; nothing when rows are no multiple of 16 bytes. */
    __device__ __forceinline__ Copy weights(int index) const {
        TileRow row = row_at(index * at.band);
        Copy copy;
        copy.bytes = row.valid && at.row_bytes % 16 == 0 ? at.band * bytes() : 0;
        copy.from = (row.fc3 ? fc3.weight : own.weight) + (int64_t)row.row * at.row_bytes + (int64_t)offset() * at.band;
        copy.to = at.stages + slot * at.stage_bytes + (at.band == 1 ? row.place : index) * at.stride;
        return copy;
    }

    /*
     * What is copied of scales or zero points: the window of 16-byte pieces around the bytes [from, from + bytes) of the rows
     * that follow each other: all of them when a stage has whole rows, else a single one.
     */
    struct Span {
        const uint8_t *from;
        int bytes;
        int to;                 /* where its window is, in the stage's scales or zero points */
    };

    __device__ __forceinline__ int rows_of_span() const {
        if (at.chunks > 1) {
            return 1;
        }
        return at.step.arrangement == ROWS_DENSE || at.step.arrangement == ROWS_INTERLEAVED ? TILE_ROWS : TILE_ROWS / 2;
    }

    template <bool ZERO_POINTS>
    __device__ __forceinline__ Span span(int index) const {
        int rows = rows_of_span();
        TileRow row = row_at(index * rows);
        int group = chunk * run.decode_chunk;
        int begin = first_block(run, group);
        int end = end_block(run, at.step, group, at.groups_of(chunk));
        int exist = (at.step.arrangement == ROWS_HALVES ? at.step.rows / 2 - row_tile * 8 : at.step.rows - row.row);
        exist = exist < rows ? exist : rows;
        Span s;
        if (ZERO_POINTS) {
            const uint8_t *tensor = row.fc3 ? fc3.zero_point : own.zero_point;
            s.from = zero_points_from<BITS>(run, at.step, tensor, row.row, begin);
            s.bytes = (int)(zero_points_from<BITS>(run, at.step, tensor, row.row + exist - 1,
                                                   run.spec.block_size == 0 ? 0 : end - 1)
                            - s.from) + 1;
            s.bytes = row.valid && tensor != nullptr ? s.bytes : 0;
            s.to = index * rows * run.zero_point_stride;
        } else {
            s.from = scales_from(run, at.step, row.fc3 ? fc3.scale : own.scale, row.row, begin);
            s.bytes = ((exist - 1) * at.step.blocks + end - begin) * scale_bytes(run.spec);
            s.bytes = row.valid ? s.bytes : 0;
            s.to = index * rows * run.scale_stride;
        }
        return s;
    }

    __device__ __forceinline__ static Copy window(const Span &span, uint8_t *base) {
        return {span.from - misalignment(span.from), base + span.to,
                span.bytes > 0 ? round_up(misalignment(span.from) + span.bytes, 16) : 0};
    }

    __device__ __forceinline__ Copy scales(int index) const {
        return window(span<false>(index), at.scales(slot));
    }

    __device__ __forceinline__ Copy zero_points(int index) const {
        return window(span<true>(index), at.zero_points(slot));
    }

    /* By one warp: what those who multiply have to know. */
    __device__ __forceinline__ void describe() const {
        typename Layout::Info &stage = at.info(slot);
        int lane = threadIdx.x % 32;
        bool exists = true;
        if (expert >= 0) {
            if (lane < COLUMNS) {
                stage.route[lane] = route;
                stage.row[lane] = at.step.matrix == 0 ? route / run.spec.top_k : route;
            }
            int place = lane % TILE_ROWS;
            int ordinal = ordinal_at(at.step, place);
            int rows = rows_of_span();
            TileRow row = row_at(ordinal);
            exists = row.valid;
            int block = first_block(run, chunk * run.decode_chunk);
            Matrix m = matrix(row);
            if (lane < TILE_ROWS) {
                Span s = span<false>(ordinal / rows);
                const uint8_t *mine = scales_from(run, at.step, m.scale, row.row, block);
                stage.scale_at[place] = row.valid ? s.to + misalignment(s.from) + (int)(mine - s.from) : -1;
                stage.bias[place] = bias_of(run, m.bias, row);
            } else if (run.zero_point_stride != 0) {
                Span s = span<true>(ordinal / rows);
                const uint8_t *mine = zero_points_from<BITS>(run, at.step, m.zero_point, row.row, block);
                stage.zero_point_at[place] = row.valid && m.zero_point != nullptr
                                                 ? s.to + misalignment(s.from) + (int)(mine - s.from)
                                                 : -1;
            } else {
                stage.zero_point_at[place] = -1;
            }
        }
        bool whole = __all_sync(~0u, exists);
        if (lane == 0) {
            stage.tile = expert >= 0 ? row_tile : -1;
            stage.columns = columns;
            stage.whole = whole;
        }
    }

    /* Rows that are no multiple of 16 bytes, by `threads` threads. */
    __device__ __forceinline__ void copy_bytes(int thread, int threads) const {
        if (at.row_bytes % 16 == 0) {
            return;
        }
        int most = run.decode_chunk * group_bytes<BITS>();
        for (int ordinal = 0; ordinal < TILE_ROWS; ordinal++) {
            TileRow row = row_at(ordinal);
            const uint8_t *from = (row.fc3 ? fc3.weight : own.weight) + (int64_t)row.row * at.row_bytes;
            copy_unaligned(at.stages + slot * at.stage_bytes + row.place * at.stride, from, at.row_bytes, offset(), most,
                           row.valid, thread, threads);
        }
    }
};

template <int IO, int BITS, int COLUMN_TILES>
struct Decoder {
    static constexpr int PARTS = Numeric<IO>::PARTS;
    using Layout = DecodeLayout<BITS, COLUMN_TILES>;
    static constexpr int COLUMNS = Layout::COLUMNS;
    using Info = typename Layout::Info;

    const Layout &at;
    const eb_cuda_run &run;
    Activations activations;
    int low_at;                 /* of this lane's two rows in a stage, this warp's first group */
    int high_at;
    int weights_step;           /* from one group of the warp to its next */
    bool simple;                /* float16 scales of 32 weights or more, and no zero points */

    __device__ __forceinline__ Decoder(const Layout &layout) : at(layout), run(layout.run) {
        activations = activations_of(run, at.step);
        low_at = weights_at(threadIdx.x % 32 / 4);
        high_at = weights_at(threadIdx.x % 32 / 4 + 8);
        weights_step = at.band == 1 ? WARPS * group_bytes<BITS>() : WARPS / 2 * 128;
        simple = run.spec.scale_type == EB_FLOAT16 && run.block_shift >= 0 && run.zero_point_stride == 0;
    }

    __device__ __forceinline__ int weights_at(int place) const {
        int group = threadIdx.x / 32;
        int lane = threadIdx.x % 4 * (group_bytes<BITS>() / 4);
        if (at.band == 1) {
            return place * at.stride + group * group_bytes<BITS>() + lane;
        }
        /* Lines of 128 bytes hold two groups of each row of a band. */
        int ordinal = ordinal_at(at.step, place);
        return ordinal / at.band * at.stride + group / 2 * 128 + ordinal % at.band * (128 / at.band)
             + group % 2 * group_bytes<BITS>() + lane;
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
        const uint8_t *weights = at.stages + slot * at.stage_bytes;
        if (simple && stage.whole) {
            multiply_simple(slot, chunk, weights + low_at, weights + high_at, x, total);
        } else {
            multiply_any(slot, chunk, weights + low_at, weights + high_at, x, total);
        }
    }

    __device__ __forceinline__ void multiply_simple(int slot, int chunk, const uint8_t *low, const uint8_t *high,
                                                    const uint16_t *x[COLUMN_TILES], float total[COLUMN_TILES][4]) const {
        const Info &stage = at.info(slot);
        int place = threadIdx.x % 32 / 4;
        int column_tiles = (stage.columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
        const uint16_t *low_scale = reinterpret_cast<const uint16_t *>(at.scales(slot) + stage.scale_at[place]);
        const uint16_t *high_scale = reinterpret_cast<const uint16_t *>(at.scales(slot) + stage.scale_at[place + 8]);
        int first = chunk * run.decode_chunk;
        int begin = first >> run.block_shift;
        int end = first + at.groups_of(chunk);
#pragma unroll 4
        for (int g = first + threadIdx.x / 32; g < end; g += WARPS) {
            int block = (g >> run.block_shift) - begin;
            GroupWeights<IO, BITS> weights;
            weights.load(low, high, 1 << (BITS - 1), 1 << (BITS - 1), half_to_float(low_scale[block]),
                         half_to_float(high_scale[block]), -1);
            multiply_columns(weights, x, column_tiles, total);
#pragma unroll
            for (int n = 0; n < COLUMN_TILES; n++) {
                x[n] += WARPS * GROUP;
            }
            low += weights_step;
            high += weights_step;
        }
    }

    __device__ __forceinline__ RowScales row_scales(int slot, int place, int block) const {
        const Info &stage = at.info(slot);
        RowScales r;
        r.scales = stage.scale_at[place] < 0 ? nullptr : at.scales(slot) + stage.scale_at[place];
        r.zero_points = stage.zero_point_at[place] < 0 ? nullptr : at.zero_points(slot) + stage.zero_point_at[place];
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
                    multiply_columns(weights, x, column_tiles, total);
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

    __device__ __forceinline__ void multiply_columns(const GroupWeights<IO, BITS> &weights,
                                                     const uint16_t *const x[COLUMN_TILES], int column_tiles,
                                                     float total[COLUMN_TILES][4]) const {
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++) {
            if (COLUMN_TILES == 1 || n < column_tiles) {
                uint4 values[PARTS];
#pragma unroll
                for (int part = 0; part < PARTS; part++) {
                    values[part] = __ldg(reinterpret_cast<const uint4 *>(x[n] + part * activations.part_stride));
                }
                weights.multiply(values, total[n]);
            }
        }
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
        asm volatile("bar.sync 1, %0;" ::"n"(EB_CUDA_THREADS) : "memory");
        for (int i = threadIdx.x; i < TILE_ROWS / 2 * stage.columns; i += EB_CUDA_THREADS) {
            /* The places run fastest: what they store is next to each other. */
            int place = i % 8;
            int column = i / 8;
            float low = stage.bias[place], high = stage.bias[place + 8];
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

/* The last warp fills, the others multiply; barriers hand the stages over. */
template <int IO, int BITS, int COLUMN_TILES>
__device__ __forceinline__ void decode_experts(const eb_cuda_run &run) {
    extern __shared__ __align__(128) uint8_t shared[];
    const DecodeLayout<BITS, COLUMN_TILES> at(run, shared);
    if ((int)threadIdx.x < run.stages) {
        init_barrier(at.full + threadIdx.x, 32);
        init_barrier(at.empty + threadIdx.x, WARPS);
    }
    fence_barriers();
    __syncthreads();
    if (threadIdx.x >= EB_CUDA_THREADS) {
        DecodeFiller<BITS, COLUMN_TILES> filler(at);
        int lane = threadIdx.x % 32;
        int bands = TILE_ROWS / at.band;
        unsigned phases = ~0u;
        while (!filler.done()) {
            int slot = filler.slot;
            await_barrier(at.empty + slot, phases >> slot & 1);
            phases ^= 1u << slot;
            filler.describe();
            Copy copy = {nullptr, nullptr, 0};
            Copy more = {nullptr, nullptr, 0};
            if (filler.expert >= 0) {
                filler.copy_bytes(lane, 32);
                int spans = TILE_ROWS / filler.rows_of_span();
                if (lane < bands) {
                    copy = filler.weights(lane);
                } else if (lane >= TILE_ROWS && lane < TILE_ROWS + spans) {
                    copy = filler.scales(lane - TILE_ROWS);
                }
                if (run.zero_point_stride != 0 && lane < spans) {
                    more = filler.zero_points(lane);
                }
            }
            __syncwarp();
            arrive_expecting(at.full + slot, copy.bytes + more.bytes);
            copy_bulk(copy, at.full + slot);
            if (run.zero_point_stride != 0) {
                copy_bulk(more, at.full + slot);
            }
            filler.advance();
        }
        return;
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
            __syncwarp();
            if (threadIdx.x % 32 == 0) {
                arrive(at.empty + slot);
            }
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
        int warp = threadIdx.x / 32;
        if (warp == 0) {
            filler.describe();
        }
        if (filler.expert >= 0) {
            filler.copy_bytes(threadIdx.x, EB_CUDA_DECODE_THREADS);
            for (int i = warp; i < TILE_ROWS / filler.at.band; i += WARPS + 1) {
                copy_by_warp(filler.weights(i), lane);
            }
            for (int i = warp; i < TILE_ROWS / filler.rows_of_span(); i += WARPS + 1) {
                copy_by_warp(filler.scales(i), lane);
                if (filler.run.zero_point_stride != 0) {
                    copy_by_warp(filler.zero_points(i), lane);
                }
            }
        }
        filler.advance();
    }
    end_stage_copies();
}

template <int IO, int BITS, int COLUMN_TILES>
__device__ __forceinline__ void decode_experts(const eb_cuda_run &run) {
    extern __shared__ __align__(128) uint8_t shared[];
    const DecodeLayout<BITS, COLUMN_TILES> at(run, shared);
    DecodeFiller<BITS, COLUMN_TILES> filler(at);
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
