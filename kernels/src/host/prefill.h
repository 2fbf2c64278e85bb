/*
 * Products of packed rows with many vectors: ROWS rows of a segment are dequantised once into a tile on the stack and
 * multiplied with all vectors, several at a time.
 */
#ifndef EXPERTBANK_PREFILL_H
#define EXPERTBANK_PREFILL_H

#include "unpack.h"

/* Columns of a tile; a multiple of every chunk. */
#define PREFILL_SEGMENT 1024

/* Vectors that share a tile's registers; ROWS times this many accumulators. */
#define PREFILL_STEP (SIMD_REGISTERS == 32 ? 6 : 3)

/* The scales and the zero points of a segment's rows. */
struct prefill_blocks {
    float scale[ROWS][SEGMENT_BLOCKS(PREFILL_SEGMENT)];
    float zero[ROWS][SEGMENT_BLOCKS(PREFILL_SEGMENT)];
};

/* tile[((chunk * lane_weights + field) * ROWS + r) * SIMD_LANES + lane]: weights times their field_factor. */
ALWAYS_INLINE void dequantise(int bits, int zero_points, const struct row_segment *segment,
                              const struct prefill_blocks *blocks, float *tile) {
    const int fields = LANE_WEIGHTS(bits);
    for (int64_t chunk = 0; chunk < segment->chunks; chunk++) {
        int64_t block = chunk_block(segment, bits, chunk);
        vec_uint words[ROWS];
        vec_float scale[ROWS];
        vec_float zero[ROWS];
        UNROLL for (int r = 0; r < ROWS; r++) {
            words[r] = segment_words(segment, r, chunk);
            scale[r] = simd_lookup(blocks->scale[r] + block, segment->lane_block);
            zero[r] = simd_splat((float)(1 << (bits - 1)));
            if (zero_points) {
                zero[r] = simd_lookup(blocks->zero[r] + block, segment->lane_block);
            }
        }
        UNROLL for (int field = 0; field < fields; field++) {
            UNROLL for (int r = 0; r < ROWS; r++) {
                vec_float q = unpack_field(words[r], bits, field) - zero[r] * field_factor(bits, field);
                simd_store(tile, q * scale[r]);
                tile += SIMD_LANES;
            }
        }
    }
}

/* Dequantises `columns` columns of ROWS rows into the tile. */
static void dequantise_rows(const struct packed_matrix *m, int64_t row, int64_t first, int64_t columns,
                            const struct row_segment *segment, float *tile) {
    struct prefill_blocks blocks;
    int zero_points = m->zero_point != NULL;
    for (int r = 0; r < ROWS; r++) {
        load_scales(m, row + r, first, columns, blocks.scale[r]);
        if (zero_points) {
            load_zero_points(m, row + r, first, columns, 1.0f, blocks.zero[r]);
        }
    }
    switch (m->bits * 2 + zero_points) {
    case 4: dequantise(2, 0, segment, &blocks, tile); break;
    case 5: dequantise(2, 1, segment, &blocks, tile); break;
    case 8: dequantise(4, 0, segment, &blocks, tile); break;
    case 9: dequantise(4, 1, segment, &blocks, tile); break;
    case 16: dequantise(8, 0, segment, &blocks, tile); break;
    default: dequantise(8, 1, segment, &blocks, tile); break;
    }
}

/* out[t * out_stride + r] += tile row r . (vectors[t] + first), for the constant `tokens`. */
ALWAYS_INLINE void multiply_tile_step(int tokens, const float *tile, int64_t steps, const float *const *vectors,
                                      int64_t first, float *out, int64_t out_stride) {
    vec_float acc[ROWS][PREFILL_STEP];
    const float *at[PREFILL_STEP];
    UNROLL for (int t = 0; t < tokens; t++) {
        at[t] = vectors[t] + first;
        UNROLL for (int r = 0; r < ROWS; r++) {
            acc[r][t] = simd_splat(0.0f);
        }
    }
    for (int64_t step = 0; step < steps; step++, tile += ROWS * SIMD_LANES) {
        vec_float x[PREFILL_STEP];
        UNROLL for (int t = 0; t < tokens; t++) {
            x[t] = simd_load(at[t] + step * SIMD_LANES);
        }
        UNROLL for (int r = 0; r < ROWS; r++) {
            vec_float weight = simd_load(tile + r * SIMD_LANES);
            UNROLL for (int t = 0; t < tokens; t++) {
                acc[r][t] = simd_fma(weight, x[t], acc[r][t]);
            }
        }
    }
    UNROLL for (int t = 0; t < tokens; t++) {
        UNROLL for (int r = 0; r < ROWS; r++) {
            out[t * out_stride + r] += simd_sum(acc[r][t]);
        }
    }
}

static void multiply_tile(const float *tile, int64_t steps, const float *const *vectors, int64_t first, int tokens,
                          float *out, int64_t out_stride) {
    int t = 0;
    for (; t + PREFILL_STEP <= tokens; t += PREFILL_STEP) {
        multiply_tile_step(PREFILL_STEP, tile, steps, vectors + t, first, out + t * out_stride, out_stride);
    }
    vectors += t;
    out += t * out_stride;
    switch (tokens - t) {
    case 0: break;
    case 1: multiply_tile_step(1, tile, steps, vectors, first, out, out_stride); break;
    case 2: multiply_tile_step(2, tile, steps, vectors, first, out, out_stride); break;
#if SIMD_REGISTERS == 32
    case 3: multiply_tile_step(3, tile, steps, vectors, first, out, out_stride); break;
    case 4: multiply_tile_step(4, tile, steps, vectors, first, out, out_stride); break;
    case 5: multiply_tile_step(5, tile, steps, vectors, first, out, out_stride); break;
#endif
    }
}

/* As decode_multiply, for any number of tokens. */
static void prefill_multiply(const struct packed_matrix *m, int64_t first_row, int64_t rows,
                             const float *const *vectors, int tokens, float *out, int64_t out_stride) {
    struct row_segment segment;
    _Alignas(64) float tile[ROWS * PREFILL_SEGMENT];
    for (int t = 0; t < tokens; t++) {
        memset(out + t * out_stride, 0, (size_t)round_up(rows, ROWS) * sizeof *out);
    }
    for (int64_t first = 0; first < m->columns; first += PREFILL_SEGMENT) {
        int64_t left = m->columns - first;
        int64_t columns = left < PREFILL_SEGMENT ? left : PREFILL_SEGMENT;
        for (int64_t row = 0; row < rows; row += ROWS) {
            open_segment(m, first_row + row, first, columns, &segment);
            dequantise_rows(m, first_row + row, first, columns, &segment, tile);
            multiply_tile(tile, segment.chunks * LANE_WEIGHTS(m->bits), vectors, first, tokens, out + row, out_stride);
        }
    }
}

#endif
