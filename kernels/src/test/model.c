#include "model.h"

#include "reference.h"

#include <stdlib.h>
#include <string.h>

#define TENSORS_PER_EXPERT 12

uint64_t random_bits(struct random *random) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t random_between(struct random *random, int64_t low, int64_t high) {
    return low + (int64_t)(random_bits(random) % (uint64_t)(high - low + 1));
}

double random_real(struct random *random, double low, double high) {
    return low + (high - low) * (double)(random_bits(random) >> 11) * 0x1p-53;
}

/* An allocation that ends with the tensor, so that the sanitizer sees a read past it. */
static uint8_t *allocate(struct model *model, int64_t bytes) {
    uint8_t *allocation = malloc((size_t)(bytes + model->options.misalignment));
    model->allocations[model->allocation_count++] = allocation;
    return allocation + model->options.misalignment;
}

static int64_t bytes_of(int32_t type) {
    return type == EB_FLOAT ? 4 : 2;
}

static void put(int32_t type, void *tensor, int64_t index, double value) {
    uint32_t bits = reference_encode(type, value);
    if (type == EB_FLOAT) {
        memcpy((char *)tensor + 4 * index, &bits, 4);
    } else {
        uint16_t half = (uint16_t)bits;
        memcpy((char *)tensor + 2 * index, &half, 2);
    }
}

static void *random_tensor(struct model *model, struct random *random, int32_t type, int64_t count, double low,
                           double high) {
    void *tensor = allocate(model, count * bytes_of(type));
    for (int64_t i = 0; i < count; i++) {
        put(type, tensor, i, random_real(random, low, high));
    }
    return tensor;
}

static void *random_bytes(struct model *model, struct random *random, int64_t count) {
    uint8_t *bytes = allocate(model, count);
    for (int64_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)random_bits(random);
    }
    return bytes;
}

/* Scales of both signs, some zero, sized so that a product stays near 1. */
static void *random_scales(struct model *model, struct random *random, int64_t count, int64_t columns) {
    double size = 1.0 / (double)(1 << (model->spec.bits - 1));
    for (int64_t root = 1; root * root < columns; root *= 2) {
        size *= 0.5;
    }
    void *tensor = random_tensor(model, random, model->spec.scale_type, count, size, 4 * size);
    for (int64_t i = 0; i < count; i++) {
        int64_t kind = random_between(random, 0, 15);
        if (kind == 0) {
            put(model->spec.scale_type, tensor, i, 0.0);
        } else if (kind < 4) {
            put(model->spec.scale_type, tensor, i, -3 * size);
        }
    }
    return tensor;
}

static void create_matrix(struct model *model, struct random *random, eb_expert_row *row, int which, int64_t rows,
                          int64_t columns) {
    const eb_qmoe_spec *spec = &model->spec;
    int64_t blocks = spec->block_size ? (columns + spec->block_size - 1) / spec->block_size : 1;
    int64_t per_byte = 8 / spec->bits;
    row->weight[which] = random_bytes(model, random, rows * columns / per_byte);
    row->scale[which] = random_scales(model, random, rows * blocks, columns);
    if (model->options.zero_point[which]) {
        int64_t packed = spec->block_size ? rows * ((blocks + per_byte - 1) / per_byte)
                                          : (rows + per_byte - 1) / per_byte;
        row->zero_point[which] = random_bytes(model, random, packed);
    }
    if (model->options.bias[which]) {
        row->bias[which] = random_tensor(model, random, spec->io_type, rows, -0.5, 0.5);
    }
}

void model_create(struct model *model, const eb_qmoe_spec *spec, const struct model_options *options,
                  struct random *random) {
    memset(model, 0, sizeof *model);
    model->spec = *spec;
    model->options = *options;
    model->allocations = calloc((size_t)spec->experts * TENSORS_PER_EXPERT + 4, sizeof(void *));
    model->rows = calloc((size_t)spec->experts, sizeof *model->rows);
    int64_t fused = spec->activation == EB_SWIGLU && spec->swiglu_fusion ? 2 : 1;
    for (int32_t e = 0; e < spec->experts; e++) {
        create_matrix(model, random, &model->rows[e], 0, fused * spec->inter, spec->hidden);
        create_matrix(model, random, &model->rows[e], 1, spec->hidden, spec->inter);
        if (spec->has_fc3) {
            create_matrix(model, random, &model->rows[e], 2, spec->inter, spec->hidden);
        }
    }
    int64_t tokens = options->tokens;
    model->run.spec = &model->spec;
    model->run.rows = model->rows;
    model->run.tokens = tokens;
    model->run.input = random_tensor(model, random, spec->io_type, tokens * spec->hidden, options->input_mean - 1.5,
                                     options->input_mean + 1.5);
    model->run.router = random_tensor(model, random, spec->io_type, tokens * spec->experts, -4, 4);
    if (options->router_weights) {
        model->run.router_weights =
            random_tensor(model, random, spec->io_type, tokens * spec->experts, -0.3, 1.0);
    }
}

void model_set(struct model *model, const void *tensor, int64_t index, double value) {
    put(model->spec.io_type, (void *)(uintptr_t)tensor, index, value);
}

void model_hide_unrouted(struct model *model) {
    int32_t *experts = malloc(sizeof *experts * (size_t)model->spec.top_k);
    double *weights = malloc(sizeof *weights * (size_t)model->spec.top_k);
    char *routed = calloc((size_t)model->spec.experts, 1);
    for (int64_t token = 0; token < model->options.tokens; token++) {
        reference_route(&model->run, token, experts, weights);
        for (int32_t i = 0; i < model->spec.top_k; i++) {
            if (experts[i] >= 0) {
                routed[experts[i]] = 1;
            }
        }
    }
    for (int32_t e = 0; e < model->spec.experts; e++) {
        if (!routed[e]) {
            memset(&model->rows[e], 0, sizeof model->rows[e]);
        }
    }
    free(experts);
    free(weights);
    free(routed);
}

void model_free(struct model *model) {
    for (int i = 0; i < model->allocation_count; i++) {
        free(model->allocations[i]);
    }
    free(model->allocations);
    free(model->rows);
}
