/* Element types of tensors, and the 16-bit parts in which tensor cores take activations. */
#ifndef EXPERTBANK_NUMERIC_CUH
#define EXPERTBANK_NUMERIC_CUH

#include "qmoe_cuda.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/*
 * Activations times integer weights are exact in the tensor cores: float16 and bfloat16 activations as they are, float
 * ones as three bfloat16 parts that add up to them. Sums are float.
 */
template <int IO>
struct Numeric {
    static constexpr int PARTS = 1;
    static constexpr bool HALF = IO == EB_FLOAT16;
};

template <>
struct Numeric<EB_FLOAT> {
    static constexpr int PARTS = 3;
    static constexpr bool HALF = false;
};

__device__ inline float bf16_to_float(uint32_t bits) {
    return __uint_as_float(bits << 16);
}

__device__ inline float half_to_float(uint32_t bits) {
    return __half2float(__ushort_as_half((unsigned short)bits));
}

__device__ inline float load_element(int type, const void *tensor, int64_t index) {
    if (type == EB_FLOAT) {
        return static_cast<const float *>(tensor)[index];
    }
    uint32_t bits = static_cast<const uint16_t *>(tensor)[index];
    return type == EB_FLOAT16 ? half_to_float(bits) : bf16_to_float(bits);
}

__device__ inline void store_element(int type, void *tensor, int64_t index, float value) {
    if (type == EB_FLOAT) {
        static_cast<float *>(tensor)[index] = value;
    } else if (type == EB_FLOAT16) {
        static_cast<__half *>(tensor)[index] = __float2half_rn(value);
    } else {
        static_cast<__nv_bfloat16 *>(tensor)[index] = __float2bfloat16_rn(value);
    }
}

/* An element as its parts. */
template <int IO>
__device__ inline void split(float value, uint16_t parts[Numeric<IO>::PARTS]) {
    if constexpr (IO == EB_FLOAT16) {
        parts[0] = __half_as_ushort(__float2half_rn(value));
    } else if constexpr (IO == EB_BFLOAT16) {
        parts[0] = __bfloat16_as_ushort(__float2bfloat16_rn(value));
    } else {
        /* Cut rather than rounded, so that 8 + 8 + 8 bits are all 24; what is infinite stays in the first part. */
        float rest = value;
        for (int part = 0; part < 3; part++) {
            uint32_t bits = __float_as_uint(rest) & 0xffff0000u;
            bool number = (bits & 0x7f800000u) != 0x7f800000u;
            if (part == 0 && value != value) {
                bits = 0x7fc00000u;
            }
            parts[part] = (uint16_t)(bits >> 16);
            rest = number ? rest - __uint_as_float(bits) : 0.0f;
        }
    }
}

__device__ inline float times_sigmoid(float x, float slope) {
    return __fdividef(x, 1.0f + expf(-slope));
}

__device__ inline float activate(const eb_qmoe_spec &spec, float x) {
    switch (spec.activation) {
    case EB_RELU:
        return x < 0.0f ? 0.0f : x;
    case EB_GELU:
        /* 0.5 x (1 + tanh u) = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3) */
        return times_sigmoid(x, 1.5957691216f * (x + 0.044715f * x * x * x));
    case EB_SILU:
        return times_sigmoid(x, x);
    case EB_SWIGLU:
        x = x > spec.limit ? spec.limit : x;
        return times_sigmoid(x, spec.alpha * x);
    default:
        return x;
    }
}

/* What activation(fc1) is multiplied with. */
__device__ inline float linear_half(const eb_qmoe_spec &spec, float x) {
    if (spec.activation != EB_SWIGLU) {
        return x;
    }
    x = x > spec.limit ? spec.limit : x;
    x = x < -spec.limit ? -spec.limit : x;
    return x + spec.beta;
}

#endif
