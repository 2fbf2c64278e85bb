/* What decode and prefill share: the tensors of an expert, their scales in shared memory, products, and outputs. */
#ifndef EXPERTBANK_STAGE_CUH
#define EXPERTBANK_STAGE_CUH

#include "layout.cuh"
#include "mma.cuh"

/* The block's dynamic shared memory. */
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) uint8_t name[]
#endif

/* The tensors of a matrix of one expert. */
struct Matrix {
    const uint8_t *weight;
    const uint8_t *scale;
    const uint8_t *zero_point;
    const uint8_t *bias;
};

__device__ __forceinline__ Matrix matrix_of(const eb_expert_row &row, int which) {
    return {static_cast<const uint8_t *>(row.weight[which]), static_cast<const uint8_t *>(row.scale[which]),
            static_cast<const uint8_t *>(row.zero_point[which]), static_cast<const uint8_t *>(row.bias[which])};
}

/* The tensors of a matrix in the order of Matrix. */
enum { WEIGHT, SCALE, ZERO_POINT, BIAS };

/* One of them; past the cache of the multiprocessor, which may be older than the row. */
__device__ __forceinline__ const uint8_t *tensor_past_cache(const eb_expert_row &row, int matrix, int tensor) {
    const unsigned long long *addresses = reinterpret_cast<const unsigned long long *>(&row);
    return reinterpret_cast<const uint8_t *>(__ldcg(addresses + 3 * tensor + matrix));
}

__device__ __forceinline__ int scale_bytes(const eb_qmoe_spec &spec) {
    return spec.scale_type == EB_FLOAT ? 4 : 2;
}

/* The first block of a row that a group touches. */
__device__ __forceinline__ int first_block(const eb_cuda_run &run, int group) {
    return run.block_shift < 0 ? 2 * group : group >> run.block_shift;
}

/* The block after the last that `groups` groups from `group` on touch. */
__device__ __forceinline__ int end_block(const eb_cuda_run &run, const Step &step, int group, int groups) {
    int end = first_block(run, group + groups - 1) + (run.block_shift < 0 ? 2 : 1);
    return end < step.blocks ? end : step.blocks;
}

/* A row's scales from a block on. */
__device__ __forceinline__ const uint8_t *scales_from(const eb_cuda_run &run, const Step &step, const uint8_t *scales,
                                                      int row, int block) {
    return scales + ((int64_t)row * step.blocks + block) * scale_bytes(run.spec);
}

/* The byte of a row's zero points that holds a block's; without blocks they are packed along the rows. */
template <int BITS>
__device__ __forceinline__ const uint8_t *zero_points_from(const eb_cuda_run &run, const Step &step,
                                                           const uint8_t *zero_points, int row, int block) {
    if (run.spec.block_size == 0) {
        return zero_points + (int64_t)row * BITS / 8;
    }
    return zero_points + (int64_t)row * ((step.blocks * BITS + 7) / 8) + (int64_t)block * BITS / 8;
}

__device__ __forceinline__ int misalignment(const uint8_t *address) {
    return (int)(reinterpret_cast<uintptr_t>(address) & 15);
}

/* Copies bytes of a row one by one; what is beyond its end becomes 0. */
__device__ __forceinline__ void copy_unaligned(uint8_t *shared, const uint8_t *row, int row_bytes, int offset, int bytes,
                                               bool valid, int thread, int threads) {
    for (int i = thread; i < bytes; i += threads) {
        shared[i] = valid && offset + i < row_bytes ? row[offset + i] : 0;
    }
}

/* Where the scales and zero points of one row are in shared memory, from a block on. */
struct RowScales {
    const uint8_t *scales;      /* NULL: the row does not exist, and has scale 0 */
    const uint8_t *zero_points; /* NULL: the middle of the range */
    int first_block;
    int row_shift;              /* where zero points are packed along the rows, else -1 */

    __device__ __forceinline__ float scale(int type, int block) const {
        return scales == nullptr ? 0.0f : load_element(type, scales, block - first_block);
    }

    template <int BITS>
    __device__ __forceinline__ int zero_point(int block) const {
        if (zero_points == nullptr) {
            return 1 << (BITS - 1);
        }
        int shift = row_shift >= 0 ? row_shift : block * BITS % 8;
        int byte = row_shift >= 0 ? 0 : block * BITS / 8 - first_block * BITS / 8;
        return zero_points[byte] >> shift & ((1 << BITS) - 1);
    }
};

/*
 * A group of 16 rows, ready to be multiplied. Blocks of 16 have two scales in a group: the first is that of the quad's first
 * two lanes, so the other two take part with zeros, and then the other way round.
 */
template <int IO, int BITS>
struct GroupWeights {
    static constexpr bool HALF = Numeric<IO>::HALF;
    uint32_t product[2][4];     /* registers of two products */
    float scale[2];             /* of rows lane / 4 and lane / 4 + 8 */

    /*
     * low_at, high_at: this lane's eight weights of each row. half: -1 for the whole group, else which of its two blocks of
     * 16.
     */
    __device__ __forceinline__ void load(const uint8_t *low_at, const uint8_t *high_at, int low_zero_point,
                                         int high_zero_point, float low_scale, float high_scale, int half) {
        int lane = threadIdx.x % 4;
        uint32_t a[4], b[4];
        unpack<BITS, HALF>(low_at, low_zero_point, a);
        unpack<BITS, HALF>(high_at, high_zero_point, b);
        bool part = half < 0 || lane / 2 == half;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            product[i / 2][i % 2 * 2] = part ? a[i] : 0;
            product[i / 2][i % 2 * 2 + 1] = part ? b[i] : 0;
        }
        scale[0] = low_scale;
        scale[1] = high_scale;
    }

    /* x: the lane's eight activations of its column, in parts. */
    __device__ __forceinline__ void multiply(const uint4 x[Numeric<IO>::PARTS], float sums[4]) const {
        float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int part = Numeric<IO>::PARTS - 1; part >= 0; part--) {
            mma_16x8x16<HALF>(d, product[0], x[part].x, x[part].y);
            mma_16x8x16<HALF>(d, product[1], x[part].z, x[part].w);
        }
        sums[0] += scale[0] * d[0];
        sums[1] += scale[0] * d[1];
        sums[2] += scale[1] * d[2];
        sums[3] += scale[1] * d[3];
    }
};

/* The bias of a row, 0 where there is none. */
__device__ __forceinline__ float bias_of(const eb_cuda_run &run, const uint8_t *bias, const TileRow &row) {
    return row.valid && bias != nullptr ? load_element(run.spec.io_type, bias, row.row) : 0.0f;
}

/* Stores one output of fc1, in packed order. */
template <int IO>
__device__ __forceinline__ void store_inner(const eb_cuda_run &run, int bits, int64_t route, int output, float value) {
    int64_t stride = round_up(run.spec.inter, GROUP);
    uint16_t parts[Numeric<IO>::PARTS];
    split<IO>(value, parts);
    int64_t at = route * stride + packed_position(run.spec.layout, bits, output);
#pragma unroll
    for (int part = 0; part < Numeric<IO>::PARTS; part++) {
        run.inner[part * (int64_t)run.tokens * run.spec.top_k * stride + at] = parts[part];
    }
}

/*
 * Stores what a tile's rows at two places come to for one route: a gate (place 0..7) and its linear half (place 8..15), or
 * the two rows of a dense tile.
 */
template <int IO, int BITS>
__device__ __forceinline__ void store_pair(const eb_cuda_run &run, const Step &step, int tile, int place, int64_t route,
                                           float low, float high) {
    const eb_qmoe_spec &spec = run.spec;
    if (step.matrix == 1) {
        int row = tile * TILE_ROWS + place;
        float *y = run.y + route * spec.hidden;
        if (row < spec.hidden) {
            y[row] = low;
        }
        if (row + 8 < spec.hidden) {
            y[row + 8] = high;
        }
        return;
    }
    int padded = round_up(spec.inter, GROUP);
    if (step.arrangement != ROWS_DENSE) {
        int output = tile * 8 + place;
        if (output < padded) {
            float value = activate(spec, low) * linear_half(spec, high);
            store_inner<IO>(run, BITS, route, output, output < spec.inter ? value : 0.0f);
        }
        return;
    }
    for (int i = 0; i < 2; i++) {
        int output = tile * TILE_ROWS + place + 8 * i;
        if (output < padded) {
            float value = activate(spec, i == 0 ? low : high);
            store_inner<IO>(run, BITS, route, output, output < spec.inter ? value : 0.0f);
        }
    }
}

/* The packed activations of the step's input: rows of tokens for fc1, of routes for fc2. */
struct Activations {
    const uint16_t *first;
    int row_stride;
    int64_t part_stride;
};

__device__ __forceinline__ Activations activations_of(const eb_cuda_run &run, const Step &step) {
    int stride = round_up(step.columns, GROUP);
    if (step.matrix == 0) {
        return {run.x, stride, (int64_t)run.tokens * stride};
    }
    return {run.inner, stride, (int64_t)run.tokens * run.spec.top_k * stride};
}

#endif
