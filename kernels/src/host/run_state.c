#include "run_state.h"

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
