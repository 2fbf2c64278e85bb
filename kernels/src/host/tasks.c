/*
 * The tasks of a run, compiled once per tier with TIER naming it.
 *
 * An fc1 task computes a tile of the inter vector for every token of one expert, activation included. An fc2 task owns
 * a tile of output rows for every token and adds the routes in ascending expert order, so that no sum depends on how
 * tasks are spread over threads.
 */
#include "activation.h"
#include "decode.h"
#include "prefill.h"
#include "tier.h"

/* Floats of one product block on the stack: tokens by rows. */
#define BLOCK_FLOATS 8192

/* Tokens that share a pass over an expert's rows. */
#define BLOCK_TOKENS (BLOCK_FLOATS / (2 * INTER_TILE))

/* Largest inter tile: a chunk of 2-bit weights. */
#define LARGEST_INTER_TILE (CHUNK(2) > INTER_TILE ? CHUNK(2) : INTER_TILE)

/* Up to this many tokens the fused passes are faster than dequantising (measured with AVX2 on Zen 3). */
#define FUSED_TOKENS 5

_Static_assert(HIDDEN_TILE % ROWS == 0 && INTER_TILE % ROWS == 0, "tiles are whole groups of rows");
_Static_assert(DECODE_SEGMENT % CHUNK(2) == 0 && PREFILL_SEGMENT % CHUNK(2) == 0, "segments are whole chunks");

static void multiply(const struct packed_matrix *m, int64_t first_row, int64_t rows, const float *const *vectors,
                     int64_t padded, int tokens, float *out, int64_t out_stride) {
    if (tokens > FUSED_TOKENS) {
        prefill_multiply(m, first_row, rows, vectors, tokens, out, out_stride);
        return;
    }
    for (int t = 0; t < tokens; t += DECODE_TOKENS) {
        int here = tokens - t < DECODE_TOKENS ? tokens - t : DECODE_TOKENS;
        decode_multiply(m, first_row, rows, vectors + t, padded, here, out + t * out_stride, out_stride);
    }
}

static void arrange_input(const eb_qmoe_run *run, struct run_state *state) {
    const eb_qmoe_spec *spec = run->spec;
    int64_t piece = CHUNK(spec->bits);
    float values[CHUNK(2)];
    for (int64_t token = 0; token < run->tokens; token++) {
        float *vector = state->input + token * state->hidden_stride;
        float *sums = vector + state->hidden_padded;
        for (int64_t k = 0; k < spec->hidden; k += piece) {
            int64_t here = spec->hidden - k < piece ? spec->hidden - k : piece;
            load_elements(spec->io_type, run->input, token * spec->hidden + k, here, values);
            arrange(values, here, spec->bits, vector + k, sums + k / LANE_WEIGHTS(spec->bits));
        }
    }
}

/* One fc1 task: which rows make a tile, and where they are in a token's products. */
struct inter_tile {
    const eb_qmoe_spec *spec;
    const eb_expert_row *expert;
    int64_t first;                  /* inter position */
    int64_t width;
    int64_t linear_offset;          /* of the linear half in a token's products */
    int64_t step;                   /* between one position's products and the next's */
};

/* Biases of `rows` rows as floats, zeros where there are none. */
static void load_biases(const eb_qmoe_spec *spec, const void *bias, int64_t first_row, int64_t rows, float *values) {
    if (bias == NULL) {
        memset(values, 0, (size_t)rows * sizeof *values);
    } else {
        load_elements(spec->io_type, bias, first_row, rows, values);
    }
}

/* The tile's products of fc1, and of fc3 where there is one, into [tokens, out_stride], and their biases alike. */
static void multiply_inter(struct inter_tile *tile, const float *const *vectors, int64_t padded, int tokens,
                           float *products, int64_t out_stride, float *biases) {
    const eb_qmoe_spec *spec = tile->spec;
    const eb_expert_row *expert = tile->expert;
    int interleaved = spec->activation == EB_SWIGLU && spec->swiglu_fusion == 1;
    int halves = spec->activation == EB_SWIGLU && spec->swiglu_fusion == 2;
    struct packed_matrix fc1 =
        packed_matrix_of(spec, expert, 0, spec->inter * (int64_t)(interleaved || halves ? 2 : 1), spec->hidden);
    if (interleaved) {
        tile->step = 2;
        tile->linear_offset = 1;
        multiply(&fc1, 2 * tile->first, 2 * tile->width, vectors, padded, tokens, products, out_stride);
        load_biases(spec, expert->bias[0], 2 * tile->first, 2 * tile->width, biases);
        return;
    }
    tile->step = 1;
    tile->linear_offset = out_stride / 2;
    multiply(&fc1, tile->first, tile->width, vectors, padded, tokens, products, out_stride);
    load_biases(spec, expert->bias[0], tile->first, tile->width, biases);
    if (halves) {
        int64_t row = spec->inter + tile->first;
        multiply(&fc1, row, tile->width, vectors, padded, tokens, products + out_stride / 2, out_stride);
        load_biases(spec, expert->bias[0], row, tile->width, biases + out_stride / 2);
    } else if (spec->has_fc3) {
        struct packed_matrix fc3 = packed_matrix_of(spec, expert, 2, spec->inter, spec->hidden);
        multiply(&fc3, tile->first, tile->width, vectors, padded, tokens, products + out_stride / 2, out_stride);
        load_biases(spec, expert->bias[2], tile->first, tile->width, biases + out_stride / 2);
    }
}

/* One token's products to its arranged inter vector. */
static void finish_inter(const struct inter_tile *tile, const float *products, const float *biases, float *vector,
                         float *sums) {
    const eb_qmoe_spec *spec = tile->spec;
    float gate[LARGEST_INTER_TILE + SIMD_LANES] = {0};
    float linear[LARGEST_INTER_TILE + SIMD_LANES] = {0};
    for (int64_t i = 0; i < tile->width; i++) {
        gate[i] = products[i * tile->step] + biases[i * tile->step];
    }
    activate(spec->activation, spec->alpha, spec->limit, gate, tile->width);
    if (eb_has_linear_half(spec)) {
        for (int64_t i = 0; i < tile->width; i++) {
            int64_t at = tile->linear_offset + i * tile->step;
            linear[i] = products[at] + biases[at];
        }
        multiply_linear(spec->activation, spec->beta, spec->limit, gate, linear, tile->width);
    }
    arrange(gate, tile->width, spec->bits, vector, sums);
}

static void fc1(const eb_qmoe_run *run, size_t task) {
    const eb_qmoe_spec *spec = run->spec;
    const struct run_state *state = run->state;
    int64_t inter_tiles = state->inter_tiles;
    int32_t expert = state->active_expert[run->first_active + (int64_t)task / inter_tiles];
    struct inter_tile tile = {.spec = spec, .expert = run->rows + expert};
    tile.first = (int64_t)task % inter_tiles * state->inter_tile;
    int64_t left = spec->inter - tile.first;
    tile.width = left < state->inter_tile ? left : state->inter_tile;

    float products[BLOCK_FLOATS];
    float biases[2 * LARGEST_INTER_TILE];
    const float *vectors[BLOCK_TOKENS];
    int64_t out_stride = 2 * state->inter_tile;
    int64_t block = BLOCK_FLOATS / out_stride;
    int64_t end = state->expert_begin[expert + 1];
    for (int64_t first = state->expert_begin[expert]; first < end; first += block) {
        int tokens = (int)(end - first < block ? end - first : block);
        for (int t = 0; t < tokens; t++) {
            vectors[t] = state->input + state->routed_token[first + t] * state->hidden_stride;
        }
        multiply_inter(&tile, vectors, state->hidden_padded, tokens, products, out_stride, biases);
        for (int t = 0; t < tokens; t++) {
            float *vector = state->inter + (first + t) * state->inter_stride;
            float *sums = vector + state->inter_padded;
            finish_inter(&tile, products + t * out_stride, biases, vector + tile.first,
                         sums + tile.first / LANE_WEIGHTS(spec->bits));
        }
    }
}

/* Adds one expert's routes to the tile's accumulator, [tokens, HIDDEN_TILE]. */
static void accumulate_expert(const eb_qmoe_run *run, int32_t expert, int64_t first_row, int64_t rows,
                              float *accumulator) {
    const eb_qmoe_spec *spec = run->spec;
    const struct run_state *state = run->state;
    struct packed_matrix fc2 = packed_matrix_of(spec, run->rows + expert, 1, spec->hidden, spec->inter);
    float products[BLOCK_TOKENS * HIDDEN_TILE];
    float biases[HIDDEN_TILE];
    const float *vectors[BLOCK_TOKENS];
    load_biases(spec, run->rows[expert].bias[1], first_row, rows, biases);
    int64_t end = state->expert_begin[expert + 1];
    for (int64_t first = state->expert_begin[expert]; first < end; first += BLOCK_TOKENS) {
        int tokens = (int)(end - first < BLOCK_TOKENS ? end - first : BLOCK_TOKENS);
        for (int t = 0; t < tokens; t++) {
            vectors[t] = state->inter + (first + t) * state->inter_stride;
        }
        multiply(&fc2, first_row, rows, vectors, state->inter_padded, tokens, products, HIDDEN_TILE);
        for (int t = 0; t < tokens; t++) {
            float *sum = accumulator + (int64_t)state->routed_token[first + t] * HIDDEN_TILE;
            float weight = state->routed_weight[first + t];
            for (int64_t r = 0; r < rows; r++) {
                sum[r] += weight * (products[t * HIDDEN_TILE + r] + biases[r]);
            }
        }
    }
}

static void fc2(const eb_qmoe_run *run, size_t task) {
    const eb_qmoe_spec *spec = run->spec;
    const struct run_state *state = run->state;
    int64_t first_row = (int64_t)task * HIDDEN_TILE;
    int64_t rows = spec->hidden - first_row < HIDDEN_TILE ? spec->hidden - first_row : HIDDEN_TILE;
    float *accumulator = state->accumulator + (int64_t)task * run->tokens * HIDDEN_TILE;
    if (run->first_active == 0) {
        memset(accumulator, 0, (size_t)(run->tokens * HIDDEN_TILE) * sizeof *accumulator);
    }
    for (int64_t i = run->first_active; i < run->end_active; i++) {
        accumulate_expert(run, state->active_expert[i], first_row, rows, accumulator);
    }
    if (run->end_active < state->active_experts) {
        return;
    }
    for (int64_t token = 0; token < run->tokens; token++) {
        store_elements(spec->io_type, run->output, token * spec->hidden + first_row,
                       accumulator + token * HIDDEN_TILE, rows);
    }
}

#define JOIN(a, b) a##b
#define TIER_SYMBOL(name) JOIN(tier_, name)
#define QUOTE(name) #name
#define TIER_NAME(name) QUOTE(name)

const struct tier TIER_SYMBOL(TIER) = {
    .name = TIER_NAME(TIER),
    .lanes = SIMD_LANES,
    .arrange_input = arrange_input,
    .fc1 = fc1,
    .fc2 = fc2,
};
