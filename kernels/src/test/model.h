/* Random QMoE nodes for the tests: every tensor in its own allocation of exactly its size, at a chosen misalignment. */
#ifndef EXPERTBANK_TEST_MODEL_H
#define EXPERTBANK_TEST_MODEL_H

#include "../host/qmoe_host.h"

struct random {
    uint64_t state;
};

uint64_t random_bits(struct random *random);
int64_t random_between(struct random *random, int64_t low, int64_t high);
double random_real(struct random *random, double low, double high);

/* What a case varies besides the specification. */
struct model_options {
    int64_t tokens;
    int zero_point[3];
    int bias[3];
    int router_weights;
    int misalignment;               /* bytes that each tensor starts after an allocation */
    double input_mean;
};

struct model {
    eb_qmoe_spec spec;
    struct model_options options;
    eb_qmoe_run run;                /* without output and workspace */
    eb_expert_row *rows;
    void **allocations;
    int allocation_count;
};

void model_create(struct model *model, const eb_qmoe_spec *spec, const struct model_options *options,
                  struct random *random);

/* Overwrites one router logit (or router weight). */
void model_set(struct model *model, const void *tensor, int64_t index, double value);

/* Makes the rows of every expert that no token is routed to unreadable. */
void model_hide_unrouted(struct model *model);

void model_free(struct model *model);

#endif
