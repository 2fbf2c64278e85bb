/* What the kernels use of CUDA's float16, for a C++ compiler of the CPU. */
#ifndef EXPERTBANK_EMULATED_FP16_H
#define EXPERTBANK_EMULATED_FP16_H

#include <cstdint>
#include <cstring>

struct __half {
    uint16_t bits;
};

struct __half2 {
    __half x, y;
};

inline float __half2float(__half value) {
    _Float16 number;
    memcpy(&number, &value, sizeof number);
    return (float)number;
}

inline __half __float2half_rn(float value) {
    _Float16 number = (_Float16)value;
    __half half;
    memcpy(&half, &number, sizeof half);
    return half;
}

inline __half __ushort_as_half(unsigned short bits) {
    return {bits};
}

inline unsigned short __half_as_ushort(__half value) {
    return value.bits;
}

inline __half2 __half2half2(__half value) {
    return {value, value};
}

inline __half2 __float2half2_rn(float value) {
    return __half2half2(__float2half_rn(value));
}

inline __half2 __hsub2(__half2 a, __half2 b) {
    return {__float2half_rn(__half2float(a.x) - __half2float(b.x)), __float2half_rn(__half2float(a.y) - __half2float(b.y))};
}

/* Rounded twice, which is the same for numbers as small as integers of a weight. */
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    return {__float2half_rn(__half2float(a.x) * __half2float(b.x) + __half2float(c.x)),
            __float2half_rn(__half2float(a.y) * __half2float(b.y) + __half2float(c.y))};
}

#endif
