/* What mma.cuh has for GPUs, in emulation. */
#ifndef EXPERTBANK_EMULATED_MMA_H
#define EXPERTBANK_EMULATED_MMA_H

#include "../../cuda/numeric.cuh"

template <bool HALF>
float emulated_element(uint64_t pair, int which) {
    uint32_t bits = (uint32_t)(pair >> 16 * which) & 0xffff;
    return HALF ? half_to_float(bits) : bf16_to_float(bits);
}

/* Lanes hold a, b and d as the instruction m16n8k16 defines it. */
template <bool HALF>
void mma_16x8x16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    using emulation::exchange;
    emulation::Exchange weights[2] = {exchange((uint64_t)a[1] << 32 | a[0]), exchange((uint64_t)a[3] << 32 | a[2])};
    emulation::Exchange columns = exchange((uint64_t)b1 << 32 | b0);
    int lane = threadIdx.x % 32;
    for (int i = 0; i < 4; i++) {
        int row = lane / 4;
        int column = lane % 4 * 2 + i % 2;
        double sum = d[i];
        for (int k = 0; k < 16; k++) {
            uint64_t w = weights[k / 8].of_lane[row * 4 + k % 8 / 2] >> 32 * (i / 2);
            uint64_t x = columns.of_lane[column * 4 + k % 8 / 2] >> 32 * (k / 8);
            sum += (double)emulated_element<HALF>(w, k % 2) * emulated_element<HALF>(x, k % 2);
        }
        d[i] = (float)sum;
    }
}

inline void copy16(void *shared, const void *global, bool valid) {
    *static_cast<uint4 *>(shared) = valid ? *static_cast<const uint4 *>(global) : make_uint4(0, 0, 0, 0);
}

inline void end_stage_copies() {
}

inline void await_stage_copies(int) {
}

inline void sync_multipliers() {
    emulation::sync_some(EB_CUDA_THREADS);
}

inline void await_the_kernel_before() {
}

inline void let_the_next_kernel_start() {
}

inline void init_barrier(uint64_t *barrier, int arrivals) {
    emulation::init_barrier(barrier, arrivals);
}

inline void fence_barriers() {
}

inline void arrive(uint64_t *barrier) {
    emulation::arrive(barrier);
}

inline void expect_bytes(uint64_t *barrier, int bytes) {
    emulation::expect_bytes(barrier, bytes);
}

inline void await_barrier(uint64_t *barrier, unsigned phase) {
    emulation::await_barrier(barrier, phase);
}

inline void copy_bulk(const Copy &copy, uint64_t *barrier) {
    if (copy.bytes > 0) {
        emulation::copy_bulk(copy.to, copy.from, copy.bytes, barrier);
    }
}

#endif
