/* Scalar conversions between float16, bfloat16 and float32; to the narrow types round to nearest, ties to even. */
#ifndef EXPERTBANK_HALF_H
#define EXPERTBANK_HALF_H

#include "qmoe_host.h"

#include <string.h>

static inline uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float float16_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u) {
        return float_of_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    }
    if (magnitude >= 0x0400u) {
        return float_of_bits(sign | ((magnitude << 13) + (112u << 23)));
    }
    return float_of_bits(sign | float_bits((float)magnitude * 0x1p-24f));
}

static inline uint16_t float_to_float16(float value) {
    uint32_t bits = float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u);
    }
    if (magnitude >= 0x477ff000u) { /* 65520, halfway between the largest float16 and 2^16 */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) {
        /* Below 2^-14 a float16 is a multiple of 2^-24, the spacing of floats in [0.5, 1): adding 0.5 rounds. */
        return (uint16_t)(sign | (float_bits(float_of_bits(magnitude) + 0.5f) - 0x3f000000u));
    }
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (magnitude - (112u << 23)) >> 13);
}

static inline float bfloat16_to_float(uint16_t half) {
    return float_of_bits((uint32_t)half << 16);
}

static inline uint16_t float_to_bfloat16(float value) {
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Bytes of one element of an ONNX type that the kernels read. */
static inline int64_t element_bytes(int32_t type) {
    return type == EB_FLOAT ? 4 : 2;
}

/* Element `index` of a tensor of `type` at any alignment. */
static inline float element_at(int32_t type, const void *tensor, int64_t index) {
    const uint8_t *at = (const uint8_t *)tensor + index * element_bytes(type);
    if (type == EB_FLOAT) {
        float value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return type == EB_FLOAT16 ? float16_to_float(half) : bfloat16_to_float(half);
}

/* Rounds `count` floats into a tensor of `type` from element `index` on. */
static inline void store_elements(int32_t type, void *tensor, int64_t index, const float *values, int64_t count) {
    uint8_t *at = (uint8_t *)tensor + index * element_bytes(type);
    if (type == EB_FLOAT) {
        memcpy(at, values, (size_t)count * sizeof *values);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        uint16_t half = type == EB_FLOAT16 ? float_to_float16(values[i]) : float_to_bfloat16(values[i]);
        memcpy(at + 2 * i, &half, sizeof half);
    }
}

#endif
