/*
 * What one run keeps in the caller's workspace, and how it is laid out there.
 *
 * An arranged vector is a row of activations in the order in which unpack.h yields the weights, padded with zeros to
 * whole chunks and followed by one sum per lane and chunk.
 */
#ifndef EXPERTBANK_RUN_STATE_H
#define EXPERTBANK_RUN_STATE_H

#include "../spec.h"
#include "qmoe_host.h"

/* Output rows of fc2 that one task owns. */
#define HIDDEN_TILE 32

/* Inter positions that one fc1 task owns, where a chunk is not larger. */
#define INTER_TILE 64

struct run_state {
    int64_t hidden_padded;          /* hidden in whole chunks */
    int64_t inter_padded;
    int64_t hidden_stride;          /* floats of one arranged input vector */
    int64_t inter_stride;           /* floats of one arranged inter vector */
    int64_t inter_tile;
    int64_t inter_tiles;
    int64_t hidden_tiles;
    int64_t active_experts;         /* experts with at least one route */
    int32_t *active_expert;         /* [active_experts], ascending */
    int32_t *expert_begin;          /* [experts + 1], an expert's range in the two arrays below */
    int32_t *routed_token;          /* [tokens * top_k] by ascending expert, then token */
    float *routed_weight;           /* [tokens * top_k] */
    int32_t *route_expert;          /* [tokens, top_k] as published in the run */
    float *route_weight;            /* [tokens, top_k] */
    float *logits;                  /* [experts], one token's, while routing */
    float *input;                   /* [tokens], arranged */
    float *inter;                   /* [tokens * top_k], arranged, in the order of routed_token */
    float *accumulator;             /* [hidden_tiles, tokens, HIDDEN_TILE] */
};

/*
 * Lays a run of `tokens` out from `workspace` on for vectors of `lanes` floats, into `state`; returns the bytes used.
 * With a NULL workspace only the size is meaningful.
 */
int64_t lay_out_run(const eb_qmoe_spec *spec, int64_t tokens, int64_t lanes, uint8_t *workspace,
                    struct run_state *state);

static inline int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

#endif
