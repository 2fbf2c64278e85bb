/* What the kernels use of CUDA's bfloat16, for a C++ compiler of the CPU. */
#ifndef EXPERTBANK_EMULATED_BF16_H
#define EXPERTBANK_EMULATED_BF16_H

#include <cstdint>
#include <cstring>

struct __nv_bfloat16 {
    uint16_t bits;
};

struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 value) {
    uint32_t bits = (uint32_t)value.bits << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

inline __nv_bfloat16 __float2bfloat16_rn(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) {
        return {0x7fff};
    }
    return {(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    return {bits};
}

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) {
    return value.bits;
}

inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 value) {
    return {value, value};
}

inline __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) {
    return {__float2bfloat16_rn(__bfloat162float(a.x) - __bfloat162float(b.x)),
            __float2bfloat16_rn(__bfloat162float(a.y) - __bfloat162float(b.y))};
}

#endif
