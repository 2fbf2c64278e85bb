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
    Matrix own;
    Matrix fc3;
    int expert;                     /* -1: of another stage of the run */
    int first;                      /* of the expert's routes */
    int columns;
    int reserved;
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
    int row_bytes;
    int chunks;
    int tiles;                      /* of rows and tokens; known once all have been found */
    int stride;                     /* of bands */
    int stage_bytes;
    uint64_t *full;
    uint64_t *empty;
    uint8_t *infos;
    Tokens *known;                  /* [KNOWN_TILES] */
    float *sums;                    /* [2, warps, 16, columns] */
    uint8_t *stages;

    __device__ __forceinline__ DecodeLayout(const eb_cuda_run &run, uint8_t *shared) : run(run), step(step_of(run.spec, run.step)) {
        band = band_rows<BITS>(run.spec.layout);
        row_bytes = step.columns * BITS / 8;
        chunks = (step.groups + run.decode_chunk - 1) / run.decode_chunk;
        stride = band * run.decode_chunk * group_bytes<BITS>() + EB_CUDA_BAND_PADDING;
        stage_bytes = round_up(TILE_ROWS / band * stride + TILE_ROWS * (run.scale_stride + run.zero_point_stride)
                                   + EB_CUDA_BIAS_BYTES, EB_CUDA_LINE_BYTES);
        full = reinterpret_cast<uint64_t *>(shared);
        empty = full + MAX_STAGES;
        infos = shared + 128;
        known = reinterpret_cast<Tokens *>(infos + MAX_STAGES * EB_CUDA_INFO_BYTES(COLUMNS));
        sums = reinterpret_cast<float *>(known + KNOWN_TILES);
        stages = reinterpret_cast<uint8_t *>(sums + 2 * WARPS * TILE_ROWS * COLUMNS);
    }

    /* What a kernel before the one before has written is read past the cache of the multiprocessor, which may be older. */
    __device__ __forceinline__ void find(const eb_cuda_token_tile &tile, Tokens &found) const {
        found.expert = tile.expert >= run.first_expert && tile.expert < run.end_expert ? tile.expert : -1;
        found.first = tile.first;
        found.columns = tile.columns;
        found.own = matrix_past_cache(run.run_rows[tile.expert], step.matrix);
        found.fc3 = matrix_past_cache(run.run_rows[tile.expert], 2);
    }

    __device__ __forceinline__ eb_cuda_token_tile token_tile(int number) const {
        int4 tile = __ldcg(reinterpret_cast<const int4 *>(run.token_tiles) + number);
        return {tile.x, tile.y, tile.z, tile.w};
    }

    __device__ __forceinline__ int route(const eb_cuda_token_tile &tile, int column) const {
        return __ldcg(run.expert_list + (int64_t)tile.expert * run.tokens + tile.first + column);
    }

    /* By all threads, before anything is looked up. Entries beyond the last are read, but not looked at. */
    __device__ __forceinline__ void find_all() {
        int most = run.max_tiles < KNOWN_TILES ? run.max_tiles : KNOWN_TILES;
        int count = __ldcg(run.tile_count);
        tiles = count * step.tiles;
        for (int i = threadIdx.x; i < most * (COLUMNS + 1); i += blockDim.x) {
            int tile = i % most;
            int column = i / most - 1;
            eb_cuda_token_tile found = token_tile(tile);
            if (tile < count) {
                if (column < 0) {
                    find(found, known[tile]);
                } else if (column < found.columns) {
                    known[tile].route[column] = route(found, column);
                }
            }
        }
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
        return TILE_ROWS / band * stride;
    }

    __device__ __forceinline__ int zero_points_at() const {
        return scales_at() + TILE_ROWS * run.scale_stride;
    }

    __device__ __forceinline__ int biases_at() const {
        return zero_points_at() + TILE_ROWS * run.zero_point_stride;
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
    int item;                   /* stages are numbered through */
    int slot;
    bool mine;                  /* not of another stage of the run */
    Matrix own;
    Matrix fc3;
    int columns;
    int route;                  /* of this lane's column */
    int span_rows;              /* rows whose scales follow each other in a stage */
    int begin_block;            /* of a row, that the stage has */
    int end_of_blocks;

    __device__ __forceinline__ DecodeFiller(const Layout &layout, int number, int fillers)
        : at(layout), run(layout.run), fillers(fillers) {
        bool consecutive = at.step.arrangement == ROWS_DENSE || at.step.arrangement == ROWS_INTERLEAVED;
        span_rows = at.chunks > 1 ? 1 : consecutive ? TILE_ROWS : TILE_ROWS / 2;
        tile = blockIdx.x;
        item = number;
        slot = item % run.stages;
        chunk = number;
        while (chunk >= at.chunks) {
            next_tile();
        }
        find_blocks();
        look_up();
    }

    __device__ __forceinline__ void next_tile() {
        chunk -= at.chunks;
        tile += gridDim.x;
    }

    __device__ __forceinline__ void find_blocks() {
        int group = chunk * run.decode_chunk;
        begin_block = first_block(run, group);
        end_of_blocks = end_block(run, at.step, group, at.groups_of(chunk));
    }

    __device__ __forceinline__ bool done() const {
        return tile >= at.tiles;
    }

    /* How often the stage's slot has been filled before, modulo 2. */
    __device__ __forceinline__ unsigned phase() const {
        return item / run.stages & 1;
    }

    __device__ __forceinline__ TileRow row_at(int ordinal) const {
        return tile_row(at.step, row_tile, ordinal);
    }

    /* Finds the tensors and routes of the tile. */
    __device__ __forceinline__ void look_up() {
        if (done()) {
            return;
        }
        int lane = threadIdx.x % 32;
        int token_tile = tile / at.step.tiles;
        row_tile = tile - token_tile * at.step.tiles;
        if (token_tile < KNOWN_TILES) {
            const typename Layout::Tokens &known = at.known[token_tile];
            mine = known.expert >= 0;
            own = known.own;
            fc3 = known.fc3;
            columns = known.columns;
            route = lane < columns ? known.route[lane] : 0;
            return;
        }
        eb_cuda_token_tile entry = at.token_tile(token_tile);
        typename Layout::Tokens found;
        at.find(entry, found);
        mine = found.expert >= 0;
        own = found.own;
        fc3 = found.fc3;
        columns = found.columns;
        route = lane < columns ? at.route(entry, lane) : 0;
    }

    /* After the stage has been filled. */
    __device__ __forceinline__ void advance() {
        item += fillers;
        chunk += fillers;
        if (chunk >= at.chunks) {
            while (chunk >= at.chunks) {
                next_tile();
            }
            look_up();
        }
        if (at.chunks > 1) {
            find_blocks();
        }
        slot = item % run.stages;
    }

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

    /*
     * Of `rows` rows from an ordinal on. of_row: bytes of a row. begin, length: of a row, what the stage has. region, room:
     * where the stage has room for it, and how much.
     */
    __device__ __forceinline__ Span span(const uint8_t *own_tensor, const uint8_t *fc3_tensor, int ordinal, int rows,
                                         int of_row, int begin, int length, int region, int room) const {
        TileRow row = row_at(ordinal);
        const uint8_t *tensor = row.fc3 ? fc3_tensor : own_tensor;
        const uint8_t *wanted = tensor + (int64_t)row.row * of_row + begin;
        int beside = misalignment(wanted);
        Span s;
        s.from = wanted - beside;
        s.bytes = row.valid && tensor != nullptr
                      ? round_up(beside + (existing(row, rows) - 1) * of_row + length, 16)
                      : 0;
        int shift = in_place_shift(s.from, region);
        s.to = region + (shift + s.bytes <= room ? shift : 0);
        s.first = s.to + beside;
        return s;
    }

    /*
     * How much further on in the stage something belongs that is read in place. There the link is what counts, and it is as
     * fast as it can be between equally aligned lines. Stages begin with a line.
     */
    __device__ __forceinline__ int in_place_shift(const uint8_t *from, int to) const {
        uint64_t address = reinterpret_cast<uintptr_t>(from);
        bool resident = address >= run.slots_begin && address < run.slots_end;
        return resident ? 0 : (int)(address - to) & (EB_CUDA_LINE_BYTES - 1);
    }

    /* The weights of a band of rows; nothing when rows are no multiple of 16 bytes. */
    __device__ __forceinline__ Span weights(int index) const {
        TileRow row = row_at(index * at.band);
        int begin = chunk * run.decode_chunk * group_bytes<BITS>();
        int length = at.row_bytes - begin;
        length = length < run.decode_chunk * group_bytes<BITS>() ? length : run.decode_chunk * group_bytes<BITS>();
        Span s;
        s.from = (row.fc3 ? fc3.weight : own.weight) + (int64_t)row.row * at.row_bytes + begin * at.band;
        s.bytes = row.valid && at.row_bytes % 16 == 0 ? at.band * length : 0;
        s.to = (at.band == 1 ? row.place : index) * at.stride;
        s.to += s.bytes > 0 ? in_place_shift(s.from, s.to) : 0;
        s.first = s.to;
        return s;
    }

    __device__ __forceinline__ Span scales(int index) const {
        int size = scale_bytes(run.spec);
        return span(own.scale, fc3.scale, index * span_rows, span_rows, at.step.blocks * size, begin_block * size,
                    (end_of_blocks - begin_block) * size, at.scales_at() + index * span_rows * run.scale_stride,
                    span_rows * run.scale_stride);
    }

    __device__ __forceinline__ Span zero_points(int index) const {
        int region = at.zero_points_at() + index * span_rows * run.zero_point_stride;
        int room = span_rows * run.zero_point_stride;
        if (run.spec.block_size != 0) {
            int begin = begin_block * BITS / 8;
            return span(own.zero_point, fc3.zero_point, index * span_rows, span_rows, (at.step.blocks * BITS + 7) / 8, begin,
                        (end_of_blocks - 1) * BITS / 8 - begin + 1, region, room);
        }
        /* Packed along the rows. */
        TileRow row = row_at(index * span_rows);
        int bits = row.row * BITS % 8 + existing(row, span_rows) * BITS;
        return span(own.zero_point, fc3.zero_point, index * span_rows, 1, 0, row.row * BITS / 8, (bits + 7) / 8, region, room);
    }

    /* Of the two halves of a tile. */
    __device__ __forceinline__ Span biases(int half) const {
        int size = run.spec.io_type == EB_FLOAT ? 4 : 2;
        return span(own.bias, fc3.bias, half * 8, 8, size, 0, size, at.biases_at() + half * (EB_CUDA_BIAS_BYTES / 2),
                    EB_CUDA_BIAS_BYTES / 2);
    }

    /*
     * The copies that make up a stage: two for each of a warp's lanes. Lanes 0 to 15 have the weights and the zero points, the
     * others the scales and, two of them, the biases.
     */
    __device__ __forceinline__ void spans(int lane, Span &first, Span &second) const {
        int count = TILE_ROWS / span_rows;
        first = {nullptr, 0, 0, 0};
        second = first;
        if (!mine) {
            return;
        }
        if (lane < TILE_ROWS / at.band) {
            first = weights(lane);
        } else if (lane >= TILE_ROWS && lane < TILE_ROWS + count) {
            first = scales(lane - TILE_ROWS);
        }
        if (lane >= TILE_ROWS && lane < TILE_ROWS + 2) {
            second = biases(lane - TILE_ROWS);
        } else if (run.zero_point_stride != 0 && lane < count) {
            second = zero_points(lane);
        }
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
        int span_number = ordinal / span_rows;
        int in_span = ordinal % span_rows;
        TileRow row = row_at(ordinal);
        int weight_at = __shfl_sync(~0u, first.to, at.band == 1 ? ordinal : ordinal / at.band);
        int scale_at = __shfl_sync(~0u, first.first, TILE_ROWS + span_number);
        int bias_at = __shfl_sync(~0u, second.bytes > 0 ? second.first : -1, TILE_ROWS + ordinal / 8);
        bool whole = __all_sync(~0u, row.valid);
        if (lane < TILE_ROWS) {
            stage.weight_at[place] = at.band == 1 ? weight_at : weight_at + ordinal % at.band * (128 / at.band);
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
            stage.tile = mine ? row_tile : -1;
            stage.columns = columns;
            stage.whole = whole;
        }
    }

    /* Rows that are no multiple of 16 bytes, by `threads` threads. */
    __device__ __forceinline__ void copy_bytes(int thread, int threads) const {
        if (!mine || at.row_bytes % 16 == 0) {
            return;
        }
        int most = run.decode_chunk * group_bytes<BITS>();
        for (int ordinal = 0; ordinal < TILE_ROWS; ordinal++) {
            TileRow row = row_at(ordinal);
            const uint8_t *from = (row.fc3 ? fc3.weight : own.weight) + (int64_t)row.row * at.row_bytes;
            copy_unaligned(at.stages + slot * at.stage_bytes + row.place * at.stride, from, at.row_bytes,
                           chunk * most, most, row.valid, thread, threads);
        }
    }
};

#endif
