/* The activation functions, on vectors. */
#ifndef EXPERTBANK_ACTIVATION_H
#define EXPERTBANK_ACTIVATION_H

#include "simd.h"

/* e^x within 2 units in the last place; below -87 it is 1e-38, above 88 it is 2e38; NaN stays NaN. */
ALWAYS_INLINE vec_float simd_exp(vec_float x) {
    vec_int is_number = x == x;
    vec_float lowest = simd_splat(-87.3f);
    vec_float highest = simd_splat(88.3f);
    vec_float clamped = simd_select(x < lowest, lowest, simd_select(x > highest, highest, x));
    /* x = n ln 2 + r: adding 1.5 * 2^23 leaves n, rounded, in the low bits. */
    vec_float shifted = simd_fma(clamped, simd_splat(0x1.715476p+0f), simd_splat(0x1.8p23f));
    vec_float n = shifted - simd_splat(0x1.8p23f);
    vec_float r = clamped - n * simd_splat(0x1.62e4p-1f);
    r = r - n * simd_splat(0x1.7f7d1cp-20f);
    vec_float p = simd_splat(1.0f / 5040);
    p = simd_fma(p, r, simd_splat(1.0f / 720));
    p = simd_fma(p, r, simd_splat(1.0f / 120));
    p = simd_fma(p, r, simd_splat(1.0f / 24));
    p = simd_fma(p, r, simd_splat(1.0f / 6));
    p = simd_fma(p, r, simd_splat(0.5f));
    p = simd_fma(p, r, simd_splat(1.0f));
    p = simd_fma(p, r, simd_splat(1.0f));
    vec_float result = (vec_float)((vec_uint)p + ((vec_uint)shifted << 23));
    return simd_select(is_number, result, x);
}

/* x * sigmoid(slope) */
ALWAYS_INLINE vec_float times_sigmoid(vec_float x, vec_float slope) {
    return x / (simd_splat(1.0f) + simd_exp(-slope));
}

/* gate[i] = act(gate[i]), `count` rounded up to whole vectors; alpha is the sigmoid's gain in EB_SWIGLU. */
static void activate(int32_t activation, float alpha, float limit, float *gate, int64_t count) {
    for (int64_t i = 0; i < count; i += SIMD_LANES) {
        vec_float x = simd_load(gate + i);
        switch (activation) {
        case EB_RELU:
            x = simd_select(x < simd_splat(0.0f), simd_splat(0.0f), x);
            break;
        case EB_GELU: {
            /* 0.5 x (1 + tanh u) = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3) */
            vec_float cube = x * x * x;
            x = times_sigmoid(x, simd_splat(1.5957691216f) * simd_fma(simd_splat(0.044715f), cube, x));
            break;
        }
        case EB_SILU:
            x = times_sigmoid(x, x);
            break;
        case EB_SWIGLU:
            x = simd_select(x > simd_splat(limit), simd_splat(limit), x);
            x = times_sigmoid(x, simd_splat(alpha) * x);
            break;
        default:
            break;
        }
        simd_store(gate + i, x);
    }
}

/* gate[i] *= linear[i], or in EB_SWIGLU the clamped linear half plus beta. */
static void multiply_linear(int32_t activation, float beta, float limit, float *gate, const float *linear,
                            int64_t count) {
    for (int64_t i = 0; i < count; i += SIMD_LANES) {
        vec_float l = simd_load(linear + i);
        if (activation == EB_SWIGLU) {
            l = simd_select(l > simd_splat(limit), simd_splat(limit), l);
            l = simd_select(l < simd_splat(-limit), simd_splat(-limit), l);
            l += simd_splat(beta);
        }
        simd_store(gate + i, simd_load(gate + i) * l);
    }
}

#endif
