/* The stages of decode: how they are laid out in shared memory, and how they are filled. */
#ifndef EXPERTBANK_DECODE_STAGE_CUH
#define EXPERTBANK_DECODE_STAGE_CUH

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
    int weight_at[TILE_ROWS];       /* by place, in the stage: the row's first group */
    int scale_at[TILE_ROWS];        /* -1: there is no such row */
    int zero_point_at[TILE_ROWS];   /* -1: there are none */
    int bias_at[TILE_ROWS];         /* -1: there are none */
};

/* Tiles of tokens that are looked up once for all of a block's tiles of rows. */
#define KNOWN_TILES EB_CUDA_KNOWN_TILES

/* A tile of tokens: whose they are, and where that expert is. */
template <int COLUMNS>
struct alignas(16) TokenTile {
    const uint8_t *tensors[2][4];   /* of the step's own matrix, and of fc3: WEIGHT, SCALE ... */
    int expert;                     /* -1: of another stage of the run */
    int columns;
    int reserved[2];
    int route[COLUMNS];
};

/* How tiles and stages are laid out, alike for those who fill and those who multiply. */
template <int BITS, int COLUMN_TILES>
struct DecodeLayout {
    static constexpr int COLUMNS = COLUMN_TILES * TILE_COLUMNS;
    using Info = StageInfo<COLUMN_TILES>;
    using Tokens = TokenTile<COLUMNS>;
    static_assert(sizeof(Info) <= EB_CUDA_INFO_BYTES(COLUMNS), "plan.c reserves too little");
    static_assert(sizeof(Tokens) == EB_CUDA_TOKEN_TILE_BYTES(COLUMNS), "plan.c reserves another size");

    const eb_cuda_run &run;
    Step step;
    int band;                       /* rows that are copied in one go: a row, or those that SM80 interleaves */
    int band_shift;                 /* 1 << band_shift are a band */
    int row_bytes;
    int chunks;
    int tiles;                      /* of rows and tokens; known once all have been found */
    int stride;                     /* of bands */
    int stage_bytes;
    uint64_t *full;
    uint64_t *empty;
    uint64_t *summed;               /* [2] */
    uint64_t *taken;                /* [2] */
    int *tile_count;                /* of tokens */
    uint8_t *infos;
    Tokens *known;                  /* [KNOWN_TILES] */
    float *sums;                    /* [2, warps, 16, columns] */
    uint8_t *stages;

    __device__ __forceinline__ DecodeLayout(const eb_cuda_run &run, uint8_t *shared) : run(run), step(step_of(run.spec, run.step)) {
        band = band_rows<BITS>(run.spec.layout);
        band_shift = band >> 1;
        row_bytes = step.columns * BITS / 8;
        chunks = (step.groups + run.decode_chunk - 1) / run.decode_chunk;
        stride = band * run.decode_chunk * group_bytes<BITS>() + EB_CUDA_BAND_PADDING;
        stage_bytes = round_up((TILE_ROWS >> band_shift) * stride + TILE_ROWS * (run.scale_stride + run.zero_point_stride)
                                   + EB_CUDA_BIAS_BYTES, EB_CUDA_LINE_BYTES);
        full = reinterpret_cast<uint64_t *>(shared);
        empty = full + MAX_STAGES;
        summed = empty + MAX_STAGES;
        taken = summed + 2;
        tile_count = reinterpret_cast<int *>(taken + 2);
        static_assert((2 * MAX_STAGES + 4) * sizeof(uint64_t) + sizeof(int) <= EB_CUDA_BARRIER_BYTES, "more barriers");
        infos = shared + EB_CUDA_BARRIER_BYTES;
        known = reinterpret_cast<Tokens *>(infos + MAX_STAGES * EB_CUDA_INFO_BYTES(COLUMNS));
        sums = reinterpret_cast<float *>(known + KNOWN_TILES);
        stages = reinterpret_cast<uint8_t *>(sums + 2 * WARPS * TILE_ROWS * COLUMNS);
    }

    /* What a kernel before the one before has written is read past the cache of the multiprocessor, which may be older. */
    __device__ __forceinline__ eb_cuda_token_tile token_tile(int number) const {
        int4 tile = __ldcg(reinterpret_cast<const int4 *>(run.token_tiles) + number);
        return {tile.x, tile.y, tile.z, tile.w};
    }

    __device__ __forceinline__ int expert_of(const eb_cuda_token_tile &tile) const {
        return tile.expert >= run.first_expert && tile.expert < run.end_expert ? tile.expert : -1;
    }

    __device__ __forceinline__ const uint8_t *tensor(int expert, bool fc3, int which) const {
        return tensor_past_cache(run.run_rows[expert], fc3 ? 2 : step.matrix, which);
    }

    __device__ __forceinline__ int route(const eb_cuda_token_tile &tile, int column) const {
        return __ldcg(run.expert_list + (int64_t)tile.expert * run.tokens + tile.first + column);
    }

    /*
     * By all threads, before anything is looked up: a thread for every word of an entry. All blocks of the GPU want the same
     * words at once, so nobody reads what it does not need.
     */
    __device__ __forceinline__ void find_all() {
        constexpr int THREADS = COLUMNS > 8 ? 32 : 16;
        static_assert(8 + COLUMNS <= THREADS, "an entry has more words");
        int most = run.max_tiles < KNOWN_TILES ? run.max_tiles : KNOWN_TILES;
        if ((int)threadIdx.x < most * THREADS) {
            int count = __ldcg(run.tile_count);
            if (threadIdx.x == 0) {
                *tile_count = count;
            }
            for (int i = threadIdx.x; i < most * THREADS; i += blockDim.x) {
                Tokens &tokens = known[i / THREADS];
                int word = i % THREADS;
                /* Entries beyond the last are read, but not looked at. */
                eb_cuda_token_tile found = token_tile(i / THREADS);
                if (i / THREADS >= count) {
                    continue;
                }
                if (word < 8) {
                    tokens.tensors[word / 4][word % 4] = tensor(found.expert, word / 4, word % 4);
                } else if (word - 8 < found.columns) {
                    tokens.route[word - 8] = route(found, word - 8);
                }
                if (word == 0) {
                    tokens.expert = expert_of(found);
                    tokens.columns = found.columns;
                }
            }
        }
        __syncthreads();
        tiles = *tile_count * step.tiles;
    }

    __device__ __forceinline__ int groups_of(int chunk) const {
        int left = step.groups - chunk * run.decode_chunk;
        return left < run.decode_chunk ? left : run.decode_chunk;
    }

    __device__ __forceinline__ Info &info(int slot) const {
        return *reinterpret_cast<Info *>(infos + slot * EB_CUDA_INFO_BYTES(COLUMNS));
    }

    __device__ __forceinline__ uint8_t *stage(int slot) const {
        return stages + slot * stage_bytes;
    }

    __device__ __forceinline__ int scales_at() const {
        return (TILE_ROWS >> band_shift) * stride;
    }

    __device__ __forceinline__ int zero_points_at() const {
        return scales_at() + TILE_ROWS * run.scale_stride;
    }

    __device__ __forceinline__ int biases_at() const {
        return zero_points_at() + TILE_ROWS * run.zero_point_stride;
    }

    __device__ __forceinline__ float bias(int slot, int place) const {
        int offset = info(slot).bias_at[place];
        return offset < 0 ? 0.0f : load_element(run.spec.io_type, stage(slot) + offset, 0);
    }

    __device__ __forceinline__ float *sums_of(int buffer) const {
        return sums + buffer * WARPS * TILE_ROWS * COLUMNS;
    }

    /* Adds what the warps have come to for the rows at a place and 8 places on, in the order of the warps. */
    __device__ __forceinline__ void add_sums(int buffer, int place, int column, float &low, float &high) const {
        const float *from = sums_of(buffer) + place * COLUMNS + column;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++) {
            low += from[warp * TILE_ROWS * COLUMNS];
            high += from[(warp * TILE_ROWS + 8) * COLUMNS];
        }
    }

    __device__ __forceinline__ int next_slot(int slot) const {
        return slot + 1 == run.stages ? 0 : slot + 1;
    }
};

/*
 * Fills stages: `fillers` warps (or groups of them) take turns. None of them may be a whole round of the slots ahead of those
 * who multiply, since a barrier tells the last phase only from the one before: so they take turns with stages, not with tiles.
 */
template <int BITS, int COLUMN_TILES>
struct DecodeFiller {
    using Layout = DecodeLayout<BITS, COLUMN_TILES>;
    static constexpr int COLUMNS = Layout::COLUMNS;

    const Layout &at;
    const eb_cuda_run &run;
    int fillers;
    int tile;                   /* of rows and tokens */
    int row_tile;
    int chunk;
    int slot;
    unsigned times;             /* how often the stage's slot has been filled before */
    int token_tile;
    int expert;                 /* -1: of another stage of the run */
    int columns;
    int route;                  /* of this lane's column */
    int span_shift;             /* 1 << span_shift rows have scales that follow each other in a stage */

    __device__ __forceinline__ DecodeFiller(const Layout &layout, int number, int fillers)
        : at(layout), run(layout.run), fillers(fillers) {
        bool consecutive = at.step.arrangement == ROWS_DENSE || at.step.arrangement == ROWS_INTERLEAVED;
        span_shift = at.chunks > 1 ? 0 : consecutive ? 4 : 3;
        tile = blockIdx.x;
        slot = number;
        times = 0;
        chunk = number;
        while (chunk >= at.chunks) {
            next_tile();
        }
        look_up();
    }

    __device__ __forceinline__ void next_tile() {
        chunk -= at.chunks;
        tile += gridDim.x;
    }

    __device__ __forceinline__ bool done() const {
        return tile >= at.tiles;
    }

    __device__ __forceinline__ unsigned phase() const {
        return times & 1;
    }

    __device__ __forceinline__ TileRow row_at(int ordinal) const {
        return tile_row(at.step, row_tile, ordinal);
    }

    /* Finds the expert and the routes of the tile. */
    __device__ __forceinline__ void look_up() {
        if (done()) {
            return;
        }
        int lane = threadIdx.x % 32;
        token_tile = tile / at.step.tiles;
        row_tile = tile - token_tile * at.step.tiles;
        if (token_tile < KNOWN_TILES) {
            const typename Layout::Tokens &known = at.known[token_tile];
            expert = known.expert;
            columns = known.columns;
            route = lane < columns ? known.route[lane] : 0;
            return;
        }
        eb_cuda_token_tile entry = at.token_tile(token_tile);
        expert = at.expert_of(entry);
        columns = entry.columns;
        route = lane < columns ? at.route(entry, lane) : 0;
    }

    __device__ __forceinline__ const uint8_t *tensor(bool fc3, int which) const {
        return token_tile < KNOWN_TILES ? at.known[token_tile].tensors[fc3][which] : at.tensor(expert, fc3, which);
    }

    /* After the stage has been filled. */
    __device__ __forceinline__ void advance() {
        slot += fillers;
        if (slot >= run.stages) {
            slot -= run.stages;
            times++;
        }
        chunk += fillers;
        if (chunk >= at.chunks) {
            while (chunk >= at.chunks) {
                next_tile();
            }
            look_up();
        }
    }

    /* Which bytes of a tensor belong to a stage: the same of every tile, but for the place of its rows. */
    struct Part {
        int tensor;             /* -1: none */
        int ordinal;            /* of the first row */
        int rows;
        int row_bytes;
        int begin;              /* of a row, in bytes */
        int length;             /* 0: nothing is to be copied */
        int region;             /* where the stage has room for them, and how much */
        int room;
    };

    /*
     * What is copied in one go: bytes of rows of a tensor that follow each other, in whole pieces of 16 bytes, which may take
     * up to 15 bytes beside them along.
     */
    struct Span {
        const uint8_t *from;
        int bytes;              /* 0: there is nothing to copy */
        int to;                 /* in the stage */
        int first;              /* in the stage: the first byte that is wanted */

        __device__ __forceinline__ Copy copy(uint8_t *stage) const {
            return {from, stage + to, bytes};
        }
    };

    /* How many of `rows` rows from one on exist. */
    __device__ __forceinline__ int existing(const TileRow &row, int rows) const {
        int left = at.step.arrangement == ROWS_HALVES ? at.step.rows / 2 - row_tile * 8 : at.step.rows - row.row;
        return left < rows ? left : rows;
    }

    __device__ __forceinline__ Span span(Part part) const {
        if (part.tensor < 0 || expert < 0) {
            return {nullptr, 0, 0, 0};
        }
        TileRow row = row_at(part.ordinal);
        int64_t row_at = (int64_t)row.row * part.row_bytes;
        if (part.tensor == ZERO_POINT && run.spec.block_size == 0) {
            /* Packed along the rows. */
            row_at = row.row * BITS / 8;
            part.length = (row.row * BITS % 8 + existing(row, part.rows) * BITS + 7) / 8;
            part.rows = 1;
        }
        const uint8_t *tensor_at = tensor(row.fc3, part.tensor);
        const uint8_t *wanted = tensor_at + row_at + part.begin;
        int beside = misalignment(wanted);
        Span s;
        s.from = wanted - beside;
        s.bytes = row.valid && tensor_at != nullptr && part.length > 0
                      ? round_up(beside + (existing(row, part.rows) - 1) * part.row_bytes + part.length, 16)
                      : 0;
        int shift = in_place_shift(s.from, part.region);
        s.to = part.region + (s.bytes > 0 && shift + s.bytes <= part.room ? shift : 0);
        s.first = s.to + beside;
        return s;
    }

#if __CUDA_ARCH__ >= 900
    /* Starts to copy into the stage. */
    __device__ __forceinline__ void start(const Span &span) const {
        expect_bytes(at.full + slot, span.bytes);
        copy_bulk(span.copy(at.stage(slot)), at.full + slot);
    }
#endif

    /*
     * How much further on in the stage something belongs that is read in place. There the link is what counts, and it is as
     * fast as it can be between equally aligned lines. Stages begin with a line.
     */
    __device__ __forceinline__ int in_place_shift(const uint8_t *from, int to) const {
        uint64_t address = reinterpret_cast<uintptr_t>(from);
        bool resident = address >= run.slots_begin && address < run.slots_end;
        return resident ? 0 : (int)(address - to) & (EB_CUDA_LINE_BYTES - 1);
    }

    /*
     * The copies that make up a stage: two for each of a warp's lanes. Lanes 0 to 15 have the weights and the zero points, the
     * others the scales and, two of them, the biases.
     */
    __device__ __forceinline__ Part first_part(int lane) const {
        if (lane < TILE_ROWS) {
            /* A band of rows; nothing when rows are no multiple of 16 bytes. */
            int ordinal = lane << at.band_shift;
            int begin = chunk * run.decode_chunk * group_bytes<BITS>();
            int length = min(at.row_bytes - begin, run.decode_chunk * group_bytes<BITS>());
            int place = at.band == 1 ? tile_row(at.step, 0, ordinal).place : lane;
            return {ordinal < TILE_ROWS ? WEIGHT : -1, ordinal, 1, at.row_bytes, begin << at.band_shift,
                    at.row_bytes % 16 == 0 ? length << at.band_shift : 0, place * at.stride, at.stride};
        }
        int ordinal = (lane - TILE_ROWS) << span_shift;
        int size = scale_bytes(run.spec);
        int begin = first_block(run, chunk * run.decode_chunk);
        int end = end_block(run, at.step, chunk * run.decode_chunk, at.groups_of(chunk));
        return {ordinal < TILE_ROWS ? SCALE : -1, ordinal, 1 << span_shift, at.step.blocks * size, begin * size,
                (end - begin) * size, at.scales_at() + ordinal * run.scale_stride, run.scale_stride << span_shift};
    }

    __device__ __forceinline__ Part second_part(int lane) const {
        if (lane >= TILE_ROWS) {
            int half = lane - TILE_ROWS;
            int size = run.spec.io_type == EB_FLOAT ? 4 : 2;
            return {half < 2 ? BIAS : -1, half * 8, 8, size, 0, size, at.biases_at() + half * (EB_CUDA_BIAS_BYTES / 2),
                    EB_CUDA_BIAS_BYTES / 2};
        }
        int ordinal = lane << span_shift;
        bool any = run.zero_point_stride != 0 && ordinal < TILE_ROWS;
        int begin = run.spec.block_size == 0 ? 0 : first_block(run, chunk * run.decode_chunk) * BITS / 8;
        int end = end_block(run, at.step, chunk * run.decode_chunk, at.groups_of(chunk));
        return {any ? ZERO_POINT : -1, ordinal, 1 << span_shift, (at.step.blocks * BITS + 7) / 8, begin,
                (end - 1) * BITS / 8 - begin + 1, at.zero_points_at() + ordinal * run.zero_point_stride,
                run.zero_point_stride << span_shift};
    }

    /* By one warp, each lane with its spans: what those who multiply have to know. */
    __device__ __forceinline__ void describe(const Span &first, const Span &second) const {
        typename Layout::Info &stage = at.info(slot);
        int lane = threadIdx.x % 32;
        if (lane < COLUMNS) {
            stage.route[lane] = route;
            stage.row[lane] = at.step.matrix == 0 ? route / run.spec.top_k : route;
        }
        int place = lane % TILE_ROWS;
        int ordinal = ordinal_at(at.step, place);
        int span_number = ordinal >> span_shift;
        int in_span = ordinal - (span_number << span_shift);
        TileRow row = row_at(ordinal);
        int weight_at = __shfl_sync(~0u, first.to, ordinal >> at.band_shift);
        int scale_at = __shfl_sync(~0u, first.first, TILE_ROWS + span_number);
        int bias_at = __shfl_sync(~0u, second.bytes > 0 ? second.first : -1, TILE_ROWS + ordinal / 8);
        bool whole = __all_sync(~0u, row.valid);
        if (lane < TILE_ROWS) {
            stage.weight_at[place] = at.band == 1 ? weight_at : weight_at + (ordinal & (at.band - 1)) * (128 >> at.band_shift);
            stage.scale_at[place] = row.valid ? scale_at + in_span * at.step.blocks * scale_bytes(run.spec) : -1;
            stage.bias_at[place] =
                row.valid && bias_at >= 0 ? bias_at + ordinal % 8 * (run.spec.io_type == EB_FLOAT ? 4 : 2) : -1;
        }
        int zero_point_at = -1;
        if (run.zero_point_stride != 0) {
            int found = __shfl_sync(~0u, second.bytes > 0 && lane < TILE_ROWS ? second.first : -1, span_number);
            if (row.valid && found >= 0) {
                int first_row = row_at(ordinal - in_span).row;
                zero_point_at = found
                              + (run.spec.block_size != 0 ? in_span * ((at.step.blocks * BITS + 7) / 8)
                                                          : row.row * BITS / 8 - first_row * BITS / 8);
            }
        }
        if (lane < TILE_ROWS) {
            stage.zero_point_at[place] = zero_point_at;
        }
        if (lane == 0) {
            stage.tile = expert < 0 ? -1 : row_tile;
            stage.columns = columns;
            stage.whole = whole;
        }
    }

    /* Rows that are no multiple of 16 bytes, by `threads` threads. */
    __device__ __forceinline__ void copy_bytes(int thread, int threads) const {
        if (expert < 0 || at.row_bytes % 16 == 0) {
            return;
        }
        int most = run.decode_chunk * group_bytes<BITS>();
        for (int ordinal = 0; ordinal < TILE_ROWS; ordinal++) {
            TileRow row = row_at(ordinal);
            const uint8_t *from = tensor(row.fc3, WEIGHT) + (int64_t)row.row * at.row_bytes;
            copy_unaligned(at.stages + slot * at.stage_bytes + row.place * at.stride, from, at.row_bytes,
                           chunk * most, most, row.valid, thread, threads);
        }
    }
};

#endif
