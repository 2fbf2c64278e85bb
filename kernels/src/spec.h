/* Which specifications the kernels of every device compute. */
#ifndef EXPERTBANK_SPEC_H
#define EXPERTBANK_SPEC_H

#include "qmoe.h"

/* Limits that keep every size far from 2^63. */
#define EB_MAX_EXTENT (1 << 24)
#define EB_MAX_EXPERTS (1 << 16)

static inline int eb_is_element_type(int32_t type) {
    return type == EB_FLOAT || type == EB_FLOAT16 || type == EB_BFLOAT16;
}

/* 1 where fc1 yields a gate and a linear half. */
static inline int eb_has_linear_half(const eb_qmoe_spec *spec) {
    return spec->has_fc3 || (spec->activation == EB_SWIGLU && spec->swiglu_fusion != 0);
}

static inline int eb_activation_is_supported(const eb_qmoe_spec *spec) {
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

/* 1 where the kernels can compute this specification, if they read its layout. */
static inline int eb_spec_is_supported(const eb_qmoe_spec *spec) {
    if (spec->bits != 2 && spec->bits != 4 && spec->bits != 8) {
        return 0;
    }
    int per_byte = 8 / spec->bits;
    int32_t block = spec->block_size;
    return spec->hidden > 0 && spec->hidden <= EB_MAX_EXTENT && spec->hidden % per_byte == 0
        && spec->inter > 0 && spec->inter <= EB_MAX_EXTENT && spec->inter % per_byte == 0
        && spec->experts > 0 && spec->experts <= EB_MAX_EXPERTS
        && spec->top_k > 0 && spec->top_k <= spec->experts
        && (block == 0 || (block >= 16 && (block & (block - 1)) == 0))
        && eb_is_element_type(spec->io_type) && eb_is_element_type(spec->scale_type)
        && (spec->routing == EB_ROUTING_ORT_CPU || spec->routing == EB_ROUTING_ORT_CUDA)
        && eb_activation_is_supported(spec);
}

#endif
