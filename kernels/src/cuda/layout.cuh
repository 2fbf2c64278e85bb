/*
 * Where weights are in a tensor and in shared memory, and the order in which activations are packed to match them.
 *
 * Everything is done in groups of 32 weights along K. The four lanes of a quad take eight weights each of a row's group:
 * lane c the packed positions 8c .. 8c + 7. A product does not care which k is at which position as long as weights and
 * activations agree, so the weights stay as they are in memory and the activations are put in their order.
 */
#ifndef EXPERTBANK_LAYOUT_CUH
#define EXPERTBANK_LAYOUT_CUH

#include "numeric.cuh"

#define GROUP 32

/* Rows of one tensor-core product. */
#define TILE_ROWS 16

__host__ __device__ __forceinline__ int round_up(int value, int unit) {
    return (value + unit - 1) / unit * unit;
}

/*
 * The packed position of element k.
 *
 * Plain rows of 2 and 4 bits: a register of two halves takes elements i and i + 4 of a lane's eight, because one shift and
 * mask yields both. Plain rows of 8 bits: as they are.
 *
 * SM80: 64 elements of each of 4 (int4) or 2 (int8) neighbouring rows are one after the other. Within 32 (int4) or 16
 * (int8) of them, the bytes hold, in order, int4: 0 1 8 9 16 17 24 25 | 2 3 10 11 18 19 26 27 | ... with even places
 * in the low and odd ones in the high half of each word, and int8: 0 8 1 9 | 2 10 3 11 | ...
 */
__device__ __forceinline__ int packed_position(int layout, int bits, int k) {
    int group = k & ~(GROUP - 1);
    int in_group = k & (GROUP - 1);
    if (layout == EB_LAYOUT_SM80) {
        if (bits == 4) {
            return group + (in_group & 7) / 2 * 8 + (in_group >> 3) * 2 + (in_group & 1);
        }
        int in_half = in_group & 15;
        return group + (in_group & 16) + (in_half & 7) / 2 * 4 + (in_half & 1) * 2 + (in_half >> 3);
    }
    if (bits == 8) {
        return k;
    }
    return (k & ~7) + (k & 3) * 2 + ((k >> 2) & 1);
}

/* The element at a packed position. */
__device__ __forceinline__ int element_at(int layout, int bits, int position) {
    int group = position & ~(GROUP - 1);
    int in_group = position & (GROUP - 1);
    if (layout == EB_LAYOUT_SM80) {
        if (bits == 4) {
            return group + (in_group >> 3) * 2 + (in_group >> 1 & 3) * 8 + (in_group & 1);
        }
        return group + (in_group & 16) + (in_group >> 2 & 3) * 2 + (in_group >> 1 & 1) + (in_group & 1) * 8;
    }
    if (bits == 8) {
        return position;
    }
    return (position & ~7) + (position >> 1 & 3) + (position & 1) * 4;
}

/* How the rows of a step make tiles of 16. With a linear half, rows 0..7 of a tile are gates and 8..15 their partners. */
enum { ROWS_DENSE, ROWS_INTERLEAVED, ROWS_HALVES, ROWS_FC3 };

/* One step: fc1 (with fc3, if there is one) or fc2. */
struct Step {
    int matrix;         /* 0: fc1, 1: fc2 */
    int rows;           /* N */
    int columns;        /* K */
    int groups;         /* of a row */
    int blocks;         /* scales of a row */
    int arrangement;    /* ROWS_DENSE ... */
    int outputs;        /* what a tile yields: 16, or 8 with a linear half */
    int tiles;          /* enough for the outputs and, in fc1, for the padding of the next step's input */
};

__host__ __device__ __forceinline__ Step step_of(const eb_qmoe_spec &spec, int step) {
    Step s;
    bool fused = spec.activation == EB_SWIGLU && spec.swiglu_fusion != 0;
    bool fc1 = step == EB_CUDA_FC1;
    s.matrix = fc1 ? 0 : 1;
    s.rows = fc1 ? (fused ? 2 * spec.inter : spec.inter) : spec.hidden;
    s.columns = fc1 ? spec.hidden : spec.inter;
    s.groups = (s.columns + GROUP - 1) / GROUP;
    s.blocks = spec.block_size == 0 ? 1 : (s.columns + spec.block_size - 1) / spec.block_size;
    s.arrangement = ROWS_DENSE;
    if (fc1 && fused) {
        s.arrangement = spec.swiglu_fusion == 1 ? ROWS_INTERLEAVED : ROWS_HALVES;
    } else if (fc1 && spec.has_fc3) {
        s.arrangement = ROWS_FC3;
    }
    s.outputs = s.arrangement == ROWS_DENSE ? TILE_ROWS : TILE_ROWS / 2;
    s.tiles = ((fc1 ? round_up(spec.inter, GROUP) : spec.hidden) + s.outputs - 1) / s.outputs;
    return s;
}

/* A row of a tile, in the order in which rows follow each other in memory. */
struct TileRow {
    int row;            /* of the matrix */
    bool fc3;           /* whose row it is, rather than the step's own matrix */
    int place;          /* in the tile */
    bool valid;
};

__device__ __forceinline__ TileRow tile_row(const Step &step, int tile, int ordinal) {
    bool halves = step.arrangement == ROWS_HALVES;
    bool second = (halves || step.arrangement == ROWS_FC3) && ordinal >= 8;
    int half_rows = halves ? step.rows / 2 : step.rows;
    TileRow r;
    r.row = halves || step.arrangement == ROWS_FC3 ? tile * 8 + (ordinal & 7) : tile * TILE_ROWS + ordinal;
    r.valid = r.row < half_rows;
    r.row += halves && second ? half_rows : 0;
    r.fc3 = !halves && second;
    r.place = step.arrangement == ROWS_INTERLEAVED ? (ordinal >> 1) | ((ordinal & 1) << 3) : ordinal;
    return r;
}

/* The ordinal of the row at a place. */
__device__ __forceinline__ int ordinal_at(const Step &step, int place) {
    return step.arrangement == ROWS_INTERLEAVED ? ((place & 7) << 1) | (place >> 3) : place;
}

/* Rows of a band: of SM80 tiles, 4 (int4) or 2 (int8) neighbouring rows are interleaved. */
template <int BITS>
__device__ __forceinline__ int band_rows(int layout) {
    return BITS != 2 && layout == EB_LAYOUT_SM80 ? (BITS == 4 ? 4 : 2) : 1;
}

/*
 * How threads copy the rows of a tile: each has one row and every sixteenth (or other even number's) piece of 16 bytes of it.
 * Neighbouring threads take what is next in memory, so that a warp reads whole lines.
 */
struct RowCopier {
    int row;            /* of the first band of rows that this thread works on */
    int piece;          /* the first */
    int64_t row_offset; /* of the first piece, added to row * row_bytes; rows interleave with their band */
    int piece_bytes;    /* from a piece to the next but threads_per_row - 1 */
};

/* The copier of a thread of which `threads` (a multiple of 4) share a row. */
template <int BITS>
__device__ __forceinline__ RowCopier row_copier(int layout, int thread, int threads) {
    RowCopier c;
    if (BITS != 2 && layout == EB_LAYOUT_SM80) {
        /* Lines of 128 bytes hold 64 elements of each row of a band. */
        constexpr int BAND = BITS == 4 ? 4 : 2;
        constexpr int PIECES = 8 / BAND;
        int in_band = thread % (BAND * threads);
        int in_line = in_band % 8;
        c.row = thread / (BAND * threads) * BAND + in_line / PIECES;
        c.piece = in_band / 8 * PIECES + in_line % PIECES;
        c.row_offset = in_band / 8 * 128 + in_line * 16;
        c.piece_bytes = threads / PIECES * 128;
    } else {
        c.row = thread / threads;
        c.piece = thread % threads;
        c.row_offset = c.piece * 16;
        c.piece_bytes = threads * 16;
    }
    return c;
}

/* Where the band of a row begins in the tensor of one expert. */
template <int BITS>
__device__ __forceinline__ int64_t band_offset(int layout, int row, int row_bytes) {
    if (BITS != 2 && layout == EB_LAYOUT_SM80) {
        return (int64_t)(row & ~(BITS == 4 ? 3 : 1)) * row_bytes;
    }
    return (int64_t)row * row_bytes;
}

/* The distance of a row's groups, from an even one to an even one, in bytes of the tensor for each group. */
template <int BITS>
__device__ __forceinline__ int group_distance(int layout) {
    return BITS != 2 && layout == EB_LAYOUT_SM80 ? 64 : GROUP * BITS / 8;
}

/* Bytes of a row's group in shared memory. */
template <int BITS>
__host__ __device__ constexpr int group_bytes() {
    return GROUP * BITS / 8;
}

/* (low, high) less the zero point, for two integers that are biased by 1024 (float16) or 128 (bfloat16). */
template <bool HALF>
__device__ __forceinline__ uint32_t less_zero_point(uint32_t biased, int zero_point) {
    if constexpr (HALF) {
        __half2 zero = __half2half2(__ushort_as_half((unsigned short)(0x6400 + zero_point)));
        __half2 value = __hsub2(*reinterpret_cast<__half2 *>(&biased), zero);
        return *reinterpret_cast<uint32_t *>(&value);
    } else {
        __nv_bfloat162 zero = __bfloat162bfloat162(__ushort_as_bfloat16((unsigned short)(0x4300 + zero_point)));
        __nv_bfloat162 value = __hsub2(*reinterpret_cast<__nv_bfloat162 *>(&biased), zero);
        return *reinterpret_cast<uint32_t *>(&value);
    }
}

/* The same for integers that stand 4 places higher: 16 q + 1024 is divided by 16 and shifted in one step. */
template <bool HALF>
__device__ __forceinline__ uint32_t less_zero_point_high(uint32_t biased, int zero_point) {
    static_assert(HALF, "bfloat16 has too few bits");
    __half2 zero = __half2half2(__ushort_as_half((unsigned short)(0xd400 + 16 * zero_point)));
    __half2 value = __hfma2(*reinterpret_cast<__half2 *>(&biased), __float2half2_rn(1.0f / 16), zero);
    return *reinterpret_cast<uint32_t *>(&value);
}

/* (word & mask) | bias in one instruction, which the compiler does not find by itself. */
__device__ __forceinline__ uint32_t mask_and_bias(uint32_t word, uint32_t mask, uint32_t bias) {
#ifdef EXPERTBANK_EMULATED
    return (word & mask) | bias;
#else
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "r"(mask), "r"(bias));
    return result;
#endif
}

/* Eight integers of 2 or 4 bits. */
template <int BITS, bool HALF>
__device__ __forceinline__ void unpack_word(uint32_t word, int zero_point, uint32_t out[4]) {
    constexpr uint32_t MASK = BITS == 4 ? 0x000f000fu : 0x00030003u;
    constexpr uint32_t BIAS = HALF ? 0x64006400u : 0x43004300u;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (BITS == 4 && HALF) {
            uint32_t half_word = i < 2 ? word : word >> 8;
            out[i] = i % 2 == 0 ? less_zero_point<HALF>(mask_and_bias(half_word, MASK, BIAS), zero_point)
                                : less_zero_point_high<HALF>(mask_and_bias(half_word, MASK << 4, BIAS), zero_point);
        } else {
            out[i] = less_zero_point<HALF>(mask_and_bias(word >> (BITS * i), MASK, BIAS), zero_point);
        }
    }
}

/*
 * Eight weights of a lane, less their zero point, as four registers of two 16-bit numbers. Adding the integer to the bits of
 * a power of two whose last place is 1 gives the number itself, exactly.
 */
template <int BITS, bool HALF>
__device__ __forceinline__ void unpack(const uint8_t *at, int zero_point, uint32_t out[4]) {
    if constexpr (BITS == 8) {
        uint2 words = *reinterpret_cast<const uint2 *>(at);
        for (int i = 0; i < 4; i++) {
            uint32_t word = i < 2 ? words.x : words.y;
            if constexpr (HALF) {
                uint32_t biased = __byte_perm(word, 0x64646464u, i % 2 == 0 ? 0x4140 : 0x4342);
                __half2 zero = __half2half2(__ushort_as_half((unsigned short)(0x6400 + zero_point)));
                __half2 value = __hsub2(*reinterpret_cast<__half2 *>(&biased), zero);
                out[i] = *reinterpret_cast<uint32_t *>(&value);
            } else {
                float zero = 8388608.0f + (float)zero_point;
                float low = __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440 | (i % 2 * 2))) - zero;
                float high = __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440 | (i % 2 * 2 + 1))) - zero;
                /* Both have at most eight significant bits. */
                out[i] = __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
            }
        }
    } else {
        uint32_t word;
        if constexpr (BITS == 4) {
            word = *reinterpret_cast<const uint32_t *>(at);
        } else {
            uint32_t both = *reinterpret_cast<const uint16_t *>(at);
            word = (both & 0xff) | (both >> 8) << 16;
        }
        unpack_word<BITS, HALF>(word, zero_point, out);
    }
}

#endif
