#include "routing.h"

#include "half.h"

#include <math.h>
#include <string.h>

/* 1 where logit a at index i is chosen before logit b at index j. */
static int ranks_before(float a, int32_t i, float b, int32_t j, int higher_index_first) {
    int a_is_nan = isnan(a);
    int b_is_nan = isnan(b);
    if (a_is_nan != b_is_nan) {
        return b_is_nan;
    }
    if (!a_is_nan && a != b) {
        return a > b;
    }
    return higher_index_first ? i > j : i < j;
}

static void select_experts(const eb_qmoe_spec *spec, const float *logits, int32_t *selected) {
    int higher_index_first = spec->routing == EB_ROUTING_ORT_CPU;
    for (int32_t rank = 0; rank < spec->top_k; rank++) {
        int32_t best = -1;
        for (int32_t e = 0; e < spec->experts; e++) {
            if (rank > 0) {
                int32_t last = selected[rank - 1];
                if (e == last || !ranks_before(logits[last], last, logits[e], e, higher_index_first)) {
                    continue;
                }
            }
            if (best < 0 || ranks_before(logits[e], e, logits[best], best, higher_index_first)) {
                best = e;
            }
        }
        selected[rank] = best;
    }
}

/* exp(logit - largest) in [0, 1], defined for infinities and NaN. */
static float softmax_numerator(float logit, float largest) {
    if (isnan(logit) || logit == -INFINITY) {
        return 0.0f;
    }
    return logit == largest ? 1.0f : expf(logit - largest);
}

/* Softmax over the selected logits; the first selected is the largest. */
static void softmax_selected(const eb_qmoe_spec *spec, const float *logits, const int32_t *selected, float *weights) {
    float largest = logits[selected[0]];
    float sum = 0.0f;
    for (int32_t i = 0; i < spec->top_k; i++) {
        weights[i] = softmax_numerator(logits[selected[i]], largest);
        sum += weights[i];
    }
    for (int32_t i = 0; i < spec->top_k; i++) {
        weights[i] = sum > 0.0f ? weights[i] / sum : 0.0f;
    }
}

/* The selected entries of softmax over all experts, divided by their sum where the node says so. */
static void softmax_all(const eb_qmoe_spec *spec, const float *logits, const int32_t *selected, float *weights) {
    float largest = logits[selected[0]];
    float sum = 0.0f;
    for (int32_t e = 0; e < spec->experts; e++) {
        sum += softmax_numerator(logits[e], largest);
    }
    float selected_sum = 0.0f;
    for (int32_t i = 0; i < spec->top_k; i++) {
        weights[i] = sum > 0.0f ? softmax_numerator(logits[selected[i]], largest) / sum : 0.0f;
        selected_sum += weights[i];
    }
    if (spec->normalize && selected_sum > 1e-6f) {
        for (int32_t i = 0; i < spec->top_k; i++) {
            weights[i] /= selected_sum;
        }
    }
}

/* The router_weights input at the selected experts, divided by their sum where the node says so. */
static void gather_router_weights(const eb_qmoe_run *run, int64_t token, const int32_t *selected, float *weights) {
    const eb_qmoe_spec *spec = run->spec;
    float sum = 0.0f;
    for (int32_t i = 0; i < spec->top_k; i++) {
        weights[i] = element_at(spec->io_type, run->router_weights, token * spec->experts + selected[i]);
        sum += weights[i];
    }
    if (spec->normalize) {
        for (int32_t i = 0; i < spec->top_k; i++) {
            weights[i] = sum != 0.0f ? weights[i] / sum : 0.0f;
        }
    }
}

/* Adds 1 unless that would wrap around; 0 when it would. */
static int count_up(uint32_t *counter) {
    uint32_t seen = __atomic_load_n(counter, __ATOMIC_RELAXED);
    while (seen != UINT32_MAX) {
        if (__atomic_compare_exchange_n(counter, &seen, seen + 1, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            return 1;
        }
    }
    return 0;
}

/* Before weights drop any: residency is about which experts a row wants. */
static void record_routes(const eb_qmoe_run *run, int64_t token, const int32_t *selected) {
    int32_t top_k = run->spec->top_k;
    if (run->selected_expert != NULL) {
        memcpy(run->selected_expert + token * top_k, selected, (size_t)top_k * sizeof *selected);
    }
    if (run->window_header == NULL) {
        return;
    }
    for (int32_t i = 0; i < top_k; i++) {
        if (selected[i] < 0 || selected[i] >= run->spec->experts) {
            __atomic_store_n(run->window_header + EB_WINDOW_POISON, 1, __ATOMIC_RELAXED);
        } else if (!count_up(run->window_counts + selected[i]) || !count_up(run->window_header + EB_WINDOW_COUNT)) {
            __atomic_store_n(run->window_header + EB_WINDOW_OVERFLOW, 1, __ATOMIC_RELAXED);
        }
    }
}

static void route_token(const eb_qmoe_run *run, struct run_state *state, int64_t token) {
    const eb_qmoe_spec *spec = run->spec;
    int32_t *selected = state->route_expert + token * spec->top_k;
    float *weights = state->route_weight + token * spec->top_k;
    for (int32_t e = 0; e < spec->experts; e++) {
        state->logits[e] = element_at(spec->io_type, run->router, token * spec->experts + e);
    }
    select_experts(spec, state->logits, selected);
    record_routes(run, token, selected);

    float smallest = 1e-8f;
    if (spec->routing == EB_ROUTING_ORT_CUDA) {
        smallest = 0.0f;
        softmax_all(spec, state->logits, selected, weights);
    } else if (run->router_weights != NULL) {
        gather_router_weights(run, token, selected, weights);
    } else {
        softmax_selected(spec, state->logits, selected, weights);
    }
    for (int32_t i = 0; i < spec->top_k; i++) {
        if (!(weights[i] > smallest)) {
            selected[i] = -1;
            weights[i] = 0.0f;
        }
    }
}

/* Sorts the routes by expert, keeping the order of tokens. */
static void group_by_expert(const eb_qmoe_run *run, struct run_state *state) {
    const eb_qmoe_spec *spec = run->spec;
    int64_t routes = run->tokens * spec->top_k;
    int32_t *begin = state->expert_begin;
    memset(begin, 0, ((size_t)spec->experts + 1) * sizeof *begin);
    for (int64_t r = 0; r < routes; r++) {
        if (state->route_expert[r] >= 0) {
            begin[state->route_expert[r] + 1]++;
        }
    }
    state->active_experts = 0;
    for (int32_t e = 0; e < spec->experts; e++) {
        if (begin[e + 1] > 0) {
            state->active_expert[state->active_experts++] = e;
        }
        begin[e + 1] += begin[e];
    }
    /* Placing a route advances its expert's begin, which ends where the next expert began. */
    for (int64_t r = 0; r < routes; r++) {
        int32_t e = state->route_expert[r];
        if (e >= 0) {
            int32_t place = begin[e]++;
            state->routed_token[place] = (int32_t)(r / spec->top_k);
            state->routed_weight[place] = state->route_weight[r];
        }
    }
    for (int32_t e = spec->experts; e > 0; e--) {
        begin[e] = begin[e - 1];
    }
    begin[0] = 0;
}

void route_tokens(const eb_qmoe_run *run, struct run_state *state) {
    for (int64_t token = 0; token < run->tokens; token++) {
        route_token(run, state, token);
    }
    group_by_expert(run, state);
}
