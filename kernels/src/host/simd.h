/*
 * The vector operations of the kernels, for the instruction set that this file is compiled for. Arithmetic and bit
 * operators come from the compiler's vector extension; what it cannot express is written here once per set, and once in plain C for any number of lanes.
 */
#ifndef EXPERTBANK_SIMD_H
#define EXPERTBANK_SIMD_H

#include "half.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define SIMD_AVX512 1
#define SIMD_LANES 16
#define SIMD_REGISTERS 32
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define SIMD_AVX2 1
#define SIMD_LANES 8
#define SIMD_REGISTERS 16
#include <immintrin.h>
#elif defined(__aarch64__)
#define SIMD_NEON 1
#define SIMD_LANES 4
#define SIMD_REGISTERS 32
#include <arm_neon.h>
#else
#ifndef SIMD_LANES
#define SIMD_LANES 4
#endif
#define SIMD_REGISTERS 16
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Before a loop of constant length whose body must become straight code. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef float vec_float __attribute__((vector_size(4 * SIMD_LANES)));
typedef int32_t vec_int __attribute__((vector_size(4 * SIMD_LANES)));
typedef uint32_t vec_uint __attribute__((vector_size(4 * SIMD_LANES)));

ALWAYS_INLINE vec_float simd_load(const float *from) {
    vec_float v;
    memcpy(&v, from, sizeof v);
    return v;
}

ALWAYS_INLINE void simd_store(float *to, vec_float v) {
    memcpy(to, &v, sizeof v);
}

ALWAYS_INLINE vec_uint simd_load_words(const uint8_t *from) {
    vec_uint v;
    memcpy(&v, from, sizeof v);
    return v;
}

ALWAYS_INLINE vec_float simd_splat(float value) {
#if defined(SIMD_AVX512)
    return (vec_float)_mm512_set1_ps(value);
#elif defined(SIMD_AVX2)
    return (vec_float)_mm256_set1_ps(value);
#else
    vec_float v = {0};
    for (int lane = 0; lane < SIMD_LANES; lane++) {
        v[lane] = value;
    }
    return v;
#endif
}

/* a * b + c */
ALWAYS_INLINE vec_float simd_fma(vec_float a, vec_float b, vec_float c) {
#if defined(SIMD_AVX512)
    return (vec_float)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(SIMD_AVX2)
    return (vec_float)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(SIMD_NEON)
    return (vec_float)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

ALWAYS_INLINE vec_float simd_from_int(vec_uint v) {
    return __builtin_convertvector((vec_int)v, vec_float);
}

/* Lanes of a where the mask is all ones, of b where it is zero. */
ALWAYS_INLINE vec_float simd_select(vec_int mask, vec_float a, vec_float b) {
    return (vec_float)(((vec_int)a & mask) | ((vec_int)b & ~mask));
}

/* from[index[lane]] in each lane; reads SIMD_LANES floats; index < SIMD_LANES. */
ALWAYS_INLINE vec_float simd_lookup(const float *from, vec_int index) {
#if defined(SIMD_AVX512)
    return (vec_float)_mm512_permutexvar_ps((__m512i)index, _mm512_loadu_ps(from));
#elif defined(SIMD_AVX2)
    return (vec_float)_mm256_permutevar8x32_ps(_mm256_loadu_ps(from), (__m256i)index);
#else
    vec_float v = {0};
    for (int lane = 0; lane < SIMD_LANES; lane++) {
        v[lane] = from[index[lane]];
    }
    return v;
#endif
}

/* The sum of all lanes. */
ALWAYS_INLINE float simd_sum(vec_float v) {
#if defined(SIMD_AVX512) || defined(SIMD_AVX2)
#if defined(SIMD_AVX512)
    __m256 folded = _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
#else
    __m256 folded = (__m256)v;
#endif
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(folded), _mm256_extractf128_ps(folded, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
#else
    float sum = 0.0f;
    for (int lane = 0; lane < SIMD_LANES; lane++) {
        sum += v[lane];
    }
    return sum;
#endif
}

/* Widens SIMD_LANES float16 values at any alignment. */
ALWAYS_INLINE vec_float simd_load_float16(const uint8_t *from) {
#if defined(SIMD_AVX512)
    return (vec_float)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
#elif defined(SIMD_AVX2)
    return (vec_float)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
#elif defined(SIMD_NEON)
    uint16x4_t halves;
    memcpy(&halves, from, sizeof halves);
    return (vec_float)vcvt_f32_f16(vreinterpret_f16_u16(halves));
#else
    vec_float v = {0};
    for (int lane = 0; lane < SIMD_LANES; lane++) {
        v[lane] = element_at(EB_FLOAT16, from, lane);
    }
    return v;
#endif
}

/* Widens `count` elements of `type`, from element `index` of a tensor at any alignment. */
static inline void load_elements(int32_t type, const void *tensor, int64_t index, int64_t count, float *values) {
    const uint8_t *at = (const uint8_t *)tensor + index * element_bytes(type);
    int64_t i = 0;
    if (type == EB_FLOAT) {
        memcpy(values, at, (size_t)count * sizeof *values);
        return;
    }
    if (type == EB_FLOAT16) {
        for (; i + SIMD_LANES <= count; i += SIMD_LANES) {
            simd_store(values + i, simd_load_float16(at + 2 * i));
        }
    }
    for (; i < count; i++) {
        values[i] = element_at(type, at, i);
    }
}

#endif
