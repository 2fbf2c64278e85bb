#include "run_state.h"

/* Limits that keep every size in this file far from 2^63. */
#define MAX_EXTENT (1 << 24)
#define MAX_EXPERTS (1 << 16)

static int is_element_type(int32_t type) {
    return type == EB_FLOAT || type == EB_FLOAT16 || type == EB_BFLOAT16;
}

static int activation_is_supported(const eb_qmoe_spec *spec) {
    if (spec->activation < EB_RELU || spec->activation > EB_IDENTITY) {
        return 0;
    }
    if (spec->swiglu_fusion < 0 || spec->swiglu_fusion > 2) {
        return 0;
    }
    if (spec->activation != EB_SWIGLU) {
        return spec->swiglu_fusion == 0;
    }
    return (spec->swiglu_fusion == 0) == (spec->has_fc3 != 0);
}

int spec_is_supported(const eb_qmoe_spec *spec) {
    if (spec->bits != 2 && spec->bits != 4 && spec->bits != 8) {
        return 0;
    }
    int per_byte = 8 / spec->bits;
    int32_t block = spec->block_size;
    return spec->hidden > 0 && spec->hidden <= MAX_EXTENT && spec->hidden % per_byte == 0
        && spec->inter > 0 && spec->inter <= MAX_EXTENT && spec->inter % per_byte == 0
        && spec->experts > 0 && spec->experts <= MAX_EXPERTS
        && spec->top_k > 0 && spec->top_k <= spec->experts
        && (block == 0 || (block >= 16 && (block & (block - 1)) == 0))
        && is_element_type(spec->io_type) && is_element_type(spec->scale_type)
        && (spec->routing == EB_ROUTING_ORT_CPU || spec->routing == EB_ROUTING_ORT_CUDA)
        && spec->layout == EB_LAYOUT_PLAIN && activation_is_supported(spec);
}

/* The next `bytes` of the workspace, at a multiple of 64 from its start. */
static void *take(uint8_t *workspace, int64_t *used, int64_t bytes) {
    void *at = workspace == NULL ? NULL : workspace + *used;
    *used = round_up(*used + bytes, 64);
    return at;
}

int64_t lay_out_run(const eb_qmoe_spec *spec, int64_t tokens, int64_t lanes, uint8_t *workspace,
                    struct run_state *state) {
    int64_t lane_weights = 32 / spec->bits;
    int64_t chunk = lanes * lane_weights;
    int64_t routes = tokens * spec->top_k;
    int64_t used = 0;

    state->hidden_padded = round_up(spec->hidden, chunk);
    state->inter_padded = round_up(spec->inter, chunk);
    state->hidden_stride = round_up(state->hidden_padded + state->hidden_padded / lane_weights, 16);
    state->inter_stride = round_up(state->inter_padded + state->inter_padded / lane_weights, 16);
    state->inter_tile = chunk > INTER_TILE ? chunk : INTER_TILE;
    state->inter_tiles = (spec->inter + state->inter_tile - 1) / state->inter_tile;
    state->hidden_tiles = (spec->hidden + HIDDEN_TILE - 1) / HIDDEN_TILE;
    state->active_experts = 0;

    take(workspace, &used, (int64_t)sizeof *state);
    state->route_expert = take(workspace, &used, routes * (int64_t)sizeof(int32_t));
    state->route_weight = take(workspace, &used, routes * (int64_t)sizeof(float));
    state->routed_token = take(workspace, &used, routes * (int64_t)sizeof(int32_t));
    state->routed_weight = take(workspace, &used, routes * (int64_t)sizeof(float));
    state->expert_begin = take(workspace, &used, (spec->experts + (int64_t)1) * (int64_t)sizeof(int32_t));
    state->active_expert = take(workspace, &used, spec->experts * (int64_t)sizeof(int32_t));
    state->logits = take(workspace, &used, spec->experts * (int64_t)sizeof(float));
    state->input = take(workspace, &used, tokens * state->hidden_stride * (int64_t)sizeof(float));
    state->inter = take(workspace, &used, routes * state->inter_stride * (int64_t)sizeof(float));
    state->accumulator =
        take(workspace, &used, state->hidden_tiles * tokens * HIDDEN_TILE * (int64_t)sizeof(float));
    return used;
}
