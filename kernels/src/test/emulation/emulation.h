/*
 * CUDA's language for a C++ compiler of the CPU, as far as the kernels use it, so that they can be tested where no GPU is.
 *
 * A block's threads take turns on one thread of the CPU, in random order; blocks run one after the other. Bulk copies arrive
 * late, in random order, and what they will overwrite is garbage until then. So a kernel that relies on an order that
 * nothing guarantees, arrives too often at a barrier, or waits for what never comes, is likely to be caught. What this
 * cannot show: time, memory models, bank conflicts, and how tensor cores round.
 */
#ifndef EXPERTBANK_EMULATION_H
#define EXPERTBANK_EMULATION_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#define __device__
#define __host__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define DYNAMIC_SHARED(name) uint8_t *name = emulation::shared_memory()

using std::max;
using std::min;

struct alignas(8) uint2 {
    unsigned x, y;
};

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

struct alignas(16) int4 {
    int x, y, z, w;
};

inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}

inline int4 make_int4(int x, int y, int z, int w) {
    return {x, y, z, w};
}

namespace emulation {

struct Index {
    unsigned x;
};

extern Index thread, block, block_size, grid_size;

typedef void (*Kernel)(const void *parameters);

/* Runs a kernel until all of its threads have ended. Ends the process when they never will. */
void launch(Kernel kernel, const void *parameters, unsigned blocks, unsigned threads);

uint8_t *shared_memory();

/* Lets others run, now and then. */
void maybe_yield();
void sync_block();
void sync_some(int threads);
void sync_warp();

/* Gives every lane of the warp what each of them has. */
struct Exchange {
    uint64_t of_lane[32];
};
Exchange exchange(uint64_t mine);

/* Barriers in shared memory: a phase ends once all have arrived and all expected bytes have. */
void init_barrier(uint64_t *barrier, int arrivals);
void arrive(uint64_t *barrier);
void expect_bytes(uint64_t *barrier, int bytes);
void await_barrier(uint64_t *barrier, unsigned phase);
void copy_bulk(void *to, const void *from, int bytes, uint64_t *barrier);

/* The number as bits. */
template <class T>
uint64_t to_bits(T value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T>
T of_bits(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

}

#define threadIdx (emulation::thread)
#define blockIdx (emulation::block)
#define blockDim (emulation::block_size)
#define gridDim (emulation::grid_size)

inline void __syncthreads() {
    emulation::sync_block();
}

inline void __syncwarp() {
    emulation::sync_warp();
}

inline void __threadfence() {
}

template <class T>
T __shfl_sync(unsigned, T value, int lane) {
    return emulation::of_bits<T>(emulation::exchange(emulation::to_bits(value)).of_lane[lane & 31]);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance) {
    return __shfl_sync(mask, value, (int)threadIdx.x ^ distance);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, int distance) {
    int lane = (int)threadIdx.x % 32;
    return __shfl_sync(mask, value, lane >= distance ? lane - distance : lane);
}

inline unsigned __ballot_sync(unsigned, bool value) {
    emulation::Exchange all = emulation::exchange(value);
    unsigned ballot = 0;
    for (int lane = 0; lane < 32; lane++) {
        ballot |= (unsigned)all.of_lane[lane] << lane;
    }
    return ballot;
}

inline bool __all_sync(unsigned mask, bool value) {
    return __ballot_sync(mask, value) == ~0u;
}

inline unsigned __reduce_max_sync(unsigned, unsigned value) {
    emulation::Exchange all = emulation::exchange(value);
    return (unsigned)*std::max_element(all.of_lane, all.of_lane + 32);
}

template <class T, class U>
T atomicAdd(T *target, U more) {
    T before = *target;
    *target = before + (T)more;
    emulation::maybe_yield();
    return before;
}

template <class T, class U>
T atomicOr(T *target, U bits) {
    T before = *target;
    *target = before | (T)bits;
    emulation::maybe_yield();
    return before;
}

template <class T>
T __ldcg(const T *from) {
    return *from;
}

template <class T>
T __ldcv(const T *from) {
    return *from;
}

inline int __popc(unsigned value) {
    return __builtin_popcount(value);
}

inline uint32_t __float_as_uint(float value) {
    return (uint32_t)emulation::to_bits(value);
}

inline float __uint_as_float(uint32_t bits) {
    return emulation::of_bits<float>(bits);
}

inline float __fdividef(float a, float b) {
    return a / b;
}

inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
    uint64_t bytes = (uint64_t)high << 32 | low;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        result |= (uint32_t)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    }
    return result;
}

#endif
