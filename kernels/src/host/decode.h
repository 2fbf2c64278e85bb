/*
 * Products of packed rows with a few vectors: one pass over the packed bytes, nothing is dequantised to memory.
 *
 * Per chunk and lane: acc = -zero_point * (sum of the lane's activations) + sum of q * activation, then
 * total += scale * acc. Subtracting the zero point per lane keeps the cancellation within a few weights.
 */
#ifndef EXPERTBANK_DECODE_H
#define EXPERTBANK_DECODE_H

#include "unpack.h"

/* Vectors that one pass takes. */
#define DECODE_TOKENS 3

/* Columns of a pass; a multiple of every chunk. */
#define DECODE_SEGMENT 4096

/* The scales and the negated zero points of a segment's rows. */
struct decode_blocks {
    float scale[ROWS][SEGMENT_BLOCKS(DECODE_SEGMENT)];
    float negated_zero[ROWS][SEGMENT_BLOCKS(DECODE_SEGMENT)];
};

/* out[t * out_stride + r] += row (first_row + r) . vector t, for the constants `rows` and `tokens`. */
ALWAYS_INLINE void decode_rows(int bits, int zero_points, int rows, int tokens, int first_row,
                               const struct row_segment *segment, const struct decode_blocks *blocks,
                               const float *const *vectors, const float *const *sums, float *out,
                               int64_t out_stride) {
    const int fields = LANE_WEIGHTS(bits);
    vec_float total[ROWS][DECODE_TOKENS];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int t = 0; t < tokens; t++) {
            total[r][t] = simd_splat(0.0f);
        }
    }
    for (int64_t chunk = 0; chunk < segment->chunks; chunk++) {
        int64_t block = chunk_block(segment, bits, chunk);
        vec_uint words[ROWS];
        vec_float acc[ROWS][DECODE_TOKENS];
        UNROLL for (int r = 0; r < rows; r++) {
            words[r] = segment_words(segment, first_row + r, chunk);
            vec_float negated_zero = simd_splat(-(float)(1 << (bits - 1)));
            if (zero_points) {
                negated_zero = simd_lookup(blocks->negated_zero[first_row + r] + block, segment->lane_block);
            }
            UNROLL for (int t = 0; t < tokens; t++) {
                acc[r][t] = negated_zero * simd_load(sums[t] + chunk * SIMD_LANES);
            }
        }
        UNROLL for (int field = 0; field < fields; field++) {
            vec_float x[DECODE_TOKENS];
            UNROLL for (int t = 0; t < tokens; t++) {
                x[t] = simd_load(vectors[t] + chunk * CHUNK(bits) + field * SIMD_LANES);
            }
            UNROLL for (int r = 0; r < rows; r++) {
                vec_float q = unpack_field(words[r], bits, field);
                UNROLL for (int t = 0; t < tokens; t++) {
                    acc[r][t] = simd_fma(q, x[t], acc[r][t]);
                }
            }
        }
        UNROLL for (int r = 0; r < rows; r++) {
            vec_float scale = simd_lookup(blocks->scale[first_row + r] + block, segment->lane_block);
            UNROLL for (int t = 0; t < tokens; t++) {
                total[r][t] = simd_fma(scale, acc[r][t], total[r][t]);
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int t = 0; t < tokens; t++) {
            out[t * out_stride + first_row + r] += simd_sum(total[r][t]);
        }
    }
}

/* decode_rows over ROWS rows, `rows` at a time. */
ALWAYS_INLINE void decode_group(int bits, int zero_points, int rows, int tokens, const struct row_segment *segment,
                                const struct decode_blocks *blocks, const float *const *vectors,
                                const float *const *sums, float *out, int64_t out_stride) {
    for (int first_row = 0; first_row < ROWS; first_row += rows) {
        decode_rows(bits, zero_points, rows, tokens, first_row, segment, blocks, vectors, sums, out, out_stride);
    }
}

/* Rows at a time for 2 and more vectors: what the registers hold. */
#define SHARED_ROWS (SIMD_REGISTERS == 32 ? 4 : 2)

#define DEFINE_DECODE(bits, zero_points)                                                                              \
    static void decode_##bits##_##zero_points(int tokens, const struct row_segment *segment,                          \
                                              const struct decode_blocks *blocks, const float *const *vectors,        \
                                              const float *const *sums, float *out, int64_t out_stride) {             \
        switch (tokens) {                                                                                             \
        case 1: decode_group(bits, zero_points, ROWS, 1, segment, blocks, vectors, sums, out, out_stride); break;     \
        case 2: decode_group(bits, zero_points, SHARED_ROWS, 2, segment, blocks, vectors, sums, out, out_stride);     \
            break;                                                                                                    \
        default: decode_group(bits, zero_points, SHARED_ROWS, 3, segment, blocks, vectors, sums, out, out_stride);    \
        }                                                                                                             \
    }

DEFINE_DECODE(2, 0)
DEFINE_DECODE(2, 1)
DEFINE_DECODE(4, 0)
DEFINE_DECODE(4, 1)
DEFINE_DECODE(8, 0)
DEFINE_DECODE(8, 1)

typedef void decode_kernel(int tokens, const struct row_segment *segment, const struct decode_blocks *blocks,
                           const float *const *vectors, const float *const *sums, float *out, int64_t out_stride);

static decode_kernel *decode_kernel_for(const struct packed_matrix *m) {
    int zero_points = m->zero_point != NULL;
    switch (m->bits) {
    case 2: return zero_points ? decode_2_1 : decode_2_0;
    case 4: return zero_points ? decode_4_1 : decode_4_0;
    default: return zero_points ? decode_8_1 : decode_8_0;
    }
}

/*
 * out[t * out_stride + r] = row (first_row + r) . vectors[t], for t < tokens <= DECODE_TOKENS and r < rows rounded up
 * to ROWS. A vector is followed by its sums at `padded`.
 */
static void decode_multiply(const struct packed_matrix *m, int64_t first_row, int64_t rows,
                            const float *const *vectors, int64_t padded, int tokens, float *out, int64_t out_stride) {
    decode_kernel *kernel = decode_kernel_for(m);
    struct row_segment segment;
    struct decode_blocks blocks;
    for (int64_t row = 0; row < rows; row += ROWS) {
        for (int t = 0; t < tokens; t++) {
            memset(out + t * out_stride + row, 0, ROWS * sizeof *out);
        }
        for (int64_t first = 0; first < m->columns; first += DECODE_SEGMENT) {
            int64_t left = m->columns - first;
            int64_t columns = left < DECODE_SEGMENT ? left : DECODE_SEGMENT;
            open_segment(m, first_row + row, first, columns, &segment);
            for (int r = 0; r < ROWS; r++) {
                load_scales(m, first_row + row + r, first, columns, blocks.scale[r]);
                if (m->zero_point != NULL) {
                    load_zero_points(m, first_row + row + r, first, columns, -1.0f, blocks.negated_zero[r]);
                }
            }
            const float *at[DECODE_TOKENS];
            const float *sums[DECODE_TOKENS];
            for (int t = 0; t < tokens; t++) {
                at[t] = vectors[t] + first;
                sums[t] = vectors[t] + padded + first / LANE_WEIGHTS(m->bits);
            }
            kernel(tokens, &segment, &blocks, at, sums, out + row, out_stride);
        }
    }
}

#endif
