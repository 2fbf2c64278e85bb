/* One compilation of tasks.c: the kernels for one instruction set. */
#ifndef EXPERTBANK_TIER_H
#define EXPERTBANK_TIER_H

#include "run_state.h"

struct tier {
    const char *name;
    int64_t lanes;                  /* floats in a vector: decides how activations are arranged */
    void (*arrange_input)(const eb_qmoe_run *run, struct run_state *state);
    void (*fc1)(const eb_qmoe_run *run, size_t task);
    void (*fc2)(const eb_qmoe_run *run, size_t task);
};

extern const struct tier tier_avx512;
extern const struct tier tier_avx2;
extern const struct tier tier_neon;
extern const struct tier tier_baseline;

#endif
