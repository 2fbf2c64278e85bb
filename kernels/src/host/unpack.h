/*
 * How packed rows become vectors.
 *
 * A row is read in chunks of SIMD_LANES 32-bit words; a word holds lane_weights = 32 / bits consecutive weights, lowest
 * bits first. Masking field j of every word leaves q * 2^(bits * j), which converts to float exactly without a shift;
 * the activations are arranged once per run so that vector j of a chunk holds the matching activations divided by
 * that power of two. (An activation below 2^-98 loses precision to the division.) The last field is shifted down
 * instead, since its mask would set the sign bit. A lane never crosses a scale block, because blocks are multiples of
 * 16 weights.
 */
#ifndef EXPERTBANK_UNPACK_H
#define EXPERTBANK_UNPACK_H

#include "run_state.h"
#include "simd.h"

/* Rows that the kernels take at once. */
#define ROWS 4

/* Chunk and block arithmetic of one bit width; constants after inlining. */
#define LANE_WEIGHTS(bits) (32 / (bits))
#define CHUNK(bits) (SIMD_LANES * LANE_WEIGHTS(bits))
#define CHUNK_BYTES (4 * SIMD_LANES)

/* Scales of the longest segment at the smallest block, and a vector more for simd_lookup. */
#define SEGMENT_BLOCKS(columns) ((columns) / 16 + SIMD_LANES)

/* Shift that maps every column to block 0. */
#define ONE_BLOCK_SHIFT 62

/* One expert's matrix [rows, columns] in the model's plain layout. */
struct packed_matrix {
    const uint8_t *weight;
    const uint8_t *scale;
    const uint8_t *zero_point;      /* NULL: 2^(bits - 1) everywhere */
    int64_t rows;
    int64_t columns;
    int64_t blocks;                 /* scales per row */
    int bits;
    int block_shift;                /* a column's block is column >> block_shift */
    int zero_points_by_row;         /* 1: packed over rows, 0: each row packs its blocks */
    int32_t scale_type;
};

/* ROWS rows over one segment of columns. Past the last row of a matrix the last one repeats. */
struct row_segment {
    const uint8_t *weight[ROWS];
    int64_t chunks;                 /* including a ragged one */
    int64_t whole_chunks;
    int64_t next_rows;              /* bytes from a row to the same place ROWS rows further */
    uint8_t ragged[ROWS][CHUNK_BYTES]; /* the ragged chunk's bytes, then zeros */
    vec_int lane_block;             /* a lane's block relative to its chunk's first */
    int block_shift;
};

static struct packed_matrix packed_matrix_of(const eb_qmoe_spec *spec, const eb_expert_row *row, int which,
                                             int64_t rows, int64_t columns) {
    int by_block = spec->block_size != 0;
    return (struct packed_matrix){
        .weight = row->weight[which],
        .scale = row->scale[which],
        .zero_point = row->zero_point[which],
        .rows = rows,
        .columns = columns,
        .blocks = by_block ? (columns + spec->block_size - 1) / spec->block_size : 1,
        .bits = spec->bits,
        .block_shift = by_block ? __builtin_ctz((unsigned)spec->block_size) : ONE_BLOCK_SHIFT,
        .zero_points_by_row = !by_block,
        .scale_type = spec->scale_type,
    };
}

static inline int64_t clamped_row(const struct packed_matrix *m, int64_t row) {
    return row < m->rows ? row : m->rows - 1;
}

/* Starts a segment of `columns` at column `first`, a multiple of the segment length. */
static void open_segment(const struct packed_matrix *m, int64_t row, int64_t first, int64_t columns,
                         struct row_segment *segment) {
    int64_t row_bytes = m->columns * m->bits / 8;
    int64_t chunk = CHUNK(m->bits);
    segment->whole_chunks = columns / chunk;
    segment->chunks = (columns + chunk - 1) / chunk;
    segment->next_rows = ROWS * row_bytes;
    segment->block_shift = m->block_shift;
    for (int lane = 0; lane < SIMD_LANES; lane++) {
        segment->lane_block[lane] = (int32_t)((int64_t)lane * LANE_WEIGHTS(m->bits) >> m->block_shift);
    }
    int64_t whole_bytes = segment->whole_chunks * CHUNK_BYTES;
    int64_t ragged_bytes = columns * m->bits / 8 - whole_bytes;
    for (int r = 0; r < ROWS; r++) {
        segment->weight[r] = m->weight + clamped_row(m, row + r) * row_bytes + first * m->bits / 8;
        if (ragged_bytes > 0) {
            memset(segment->ragged[r], 0, CHUNK_BYTES);
            memcpy(segment->ragged[r], segment->weight[r] + whole_bytes, (size_t)ragged_bytes);
        }
    }
}

/* A chunk of row r; fetches the chunk that the next ROWS rows have there, since rows stream from a mapped file. */
ALWAYS_INLINE vec_uint segment_words(const struct row_segment *segment, int r, int64_t chunk) {
    __builtin_prefetch((const void *)((uintptr_t)segment->weight[r]
                                      + (uintptr_t)(chunk * CHUNK_BYTES + segment->next_rows)));
    return simd_load_words(chunk < segment->whole_chunks ? segment->weight[r] + chunk * CHUNK_BYTES
                                                         : segment->ragged[r]);
}

/* Where the values of a chunk's first block are in a segment's scales or zero points. */
ALWAYS_INLINE int64_t chunk_block(const struct row_segment *segment, int bits, int64_t chunk) {
    return chunk * CHUNK(bits) >> segment->block_shift;
}

/* Scales of one row over a segment; one vector of zeros follows. */
static void load_scales(const struct packed_matrix *m, int64_t row, int64_t first, int64_t columns, float *scales) {
    int64_t block = first >> m->block_shift;
    int64_t count = ((first + columns - 1) >> m->block_shift) - block + 1;
    load_elements(m->scale_type, m->scale, clamped_row(m, row) * m->blocks + block, count, scales);
    simd_store(scales + count, simd_splat(0.0f));
}

/* Zero points of one row over a segment, as floats times `factor`; one vector of zeros follows. */
static void load_zero_points(const struct packed_matrix *m, int64_t row, int64_t first, int64_t columns, float factor,
                             float *values) {
    int64_t per_byte = 8 / m->bits;
    int64_t mask = (1 << m->bits) - 1;
    int64_t block = first >> m->block_shift;
    int64_t count = ((first + columns - 1) >> m->block_shift) - block + 1;
    int64_t at = clamped_row(m, row);
    const uint8_t *packed = m->zero_point;
    if (!m->zero_points_by_row) {
        packed += at * ((m->blocks + per_byte - 1) / per_byte);
        at = block;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t q = packed[(at + i) / per_byte] >> ((at + i) % per_byte * m->bits) & mask;
        values[i] = (float)q * factor;
    }
    simd_store(values + count, simd_splat(0.0f));
}

/* 2^(bits * field) for a masked field, 1 for the shifted one. */
ALWAYS_INLINE float field_factor(int bits, int field) {
    return field == LANE_WEIGHTS(bits) - 1 ? 1.0f : (float)(1u << bits * field);
}

/* Field `field` of every word, times its field_factor. */
ALWAYS_INLINE vec_float unpack_field(vec_uint words, int bits, int field) {
    if (field == LANE_WEIGHTS(bits) - 1) {
        return simd_from_int(words >> (32 - bits));
    }
    return simd_from_int(words & (((1u << bits) - 1) << bits * field));
}

/* Arranges `count` activations: whole chunks of values to `vector`, one sum per lane and chunk to `sums`. */
static void arrange(const float *values, int64_t count, int bits, float *vector, float *sums) {
    int lane_weights = LANE_WEIGHTS(bits);
    int64_t chunk = CHUNK(bits);
    for (int64_t first = 0; first < count; first += chunk, vector += chunk, sums += SIMD_LANES) {
        float padded[SIMD_LANES * 16] = {0};
        int64_t here = count - first < chunk ? count - first : chunk;
        memcpy(padded, values + first, (size_t)here * sizeof *values);
        vec_float sum = simd_splat(0.0f);
        for (int field = 0; field < lane_weights; field++) {
            float factor = 1.0f / field_factor(bits, field);
            vec_float column;
            for (int lane = 0; lane < SIMD_LANES; lane++) {
                column[lane] = padded[lane * lane_weights + field];
            }
            sum += column;
            simd_store(vector + field * SIMD_LANES, column * factor);
        }
        simd_store(sums, sum);
    }
}

#endif
