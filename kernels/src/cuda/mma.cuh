/* Tensor-core products and asynchronous copies into shared memory, for every architecture from sm_75 on. */
#ifndef EXPERTBANK_MMA_CUH
#define EXPERTBANK_MMA_CUH

#include "numeric.cuh"

/* Bytes to copy: a multiple of 16, as are both addresses. */
struct Copy {
    const uint8_t *from;
    uint8_t *to;
    int bytes;
};

#ifdef EXPERTBANK_EMULATED
#include "../test/emulation/emulated_mma.h"
#else

/*
 * d += a b for a [16, 16] of weights and b [16, 8] of activations. A lane holds the weights of rows lane / 4 and lane / 4 + 8
 * (a[0], a[2] and a[1], a[3]), the activations of column lane / 4, and the sums of columns 2 (lane % 4) and the next.
 */
template <bool HALF>
__device__ __forceinline__ void mma_16x8x16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    if constexpr (HALF) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
#else
    if constexpr (HALF) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b0));
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[2]), "r"(a[3]), "r"(b1));
    } else {
        /* sm_75 has no bfloat16 product: each lane collects what the others hold of its rows and columns. */
        int lane = threadIdx.x % 32;
        for (int other = 0; other < 4; other++) {
            int row = lane / 4 * 4 + other;
            for (int half = 0; half < 2; half++) {
                uint32_t w0 = __shfl_sync(~0u, a[2 * half], row);
                uint32_t w1 = __shfl_sync(~0u, a[2 * half + 1], row);
                for (int column = 0; column < 2; column++) {
                    uint32_t x = __shfl_sync(~0u, half == 0 ? b0 : b1, (lane % 4 * 2 + column) * 4 + other);
                    float low = bf16_to_float(x & 0xffff);
                    float high = bf16_to_float(x >> 16);
                    d[column] += bf16_to_float(w0 & 0xffff) * low + bf16_to_float(w0 >> 16) * high;
                    d[2 + column] += bf16_to_float(w1 & 0xffff) * low + bf16_to_float(w1 >> 16) * high;
                }
            }
        }
    }
#endif
}

/* Copies 16 bytes, or zeroes them. */
__device__ __forceinline__ void copy16(void *shared, const void *global, bool valid) {
#if __CUDA_ARCH__ >= 800
    unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(global), "r"(bytes));
#else
    *static_cast<uint4 *>(shared) = valid ? *static_cast<const uint4 *>(global) : make_uint4(0, 0, 0, 0);
#endif
}

__device__ __forceinline__ void end_stage_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until at most that many of the last stages' copies are under way. */
__device__ __forceinline__ void await_stage_copies(int under_way) {
#if __CUDA_ARCH__ >= 800
    switch (under_way) {
    case 0: asm volatile("cp.async.wait_group 0;" ::: "memory"); break;
    case 1: asm volatile("cp.async.wait_group 1;" ::: "memory"); break;
    default: asm volatile("cp.async.wait_group 2;" ::: "memory"); break;
    }
#endif
}

/*
 * The kernels of a run follow each other so closely that one can start while the one before still ends. Each waits here
 * before it reads what the one before has written ...
 */
__device__ __forceinline__ void await_the_kernel_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* ... and then lets the next one start, which so finds complete whatever was before this one. */
__device__ __forceinline__ void let_the_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/*
 * From sm_90 on, one lane copies any number of bytes at once, in reads as long as the memory system takes them. A full
 * barrier counts the bytes of a stage and the lanes of the copying warp, an empty one the threads that multiply: each arrives
 * for itself, after what it has written or read.
 */
#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ unsigned shared_address(const void *shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}

__device__ __forceinline__ void init_barrier(uint64_t *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void fence_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void expect_bytes(uint64_t *barrier, int bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void await_barrier(uint64_t *barrier, unsigned phase) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again%=:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again%=;\n"
                 "}" ::"r"(shared_address(barrier)), "r"(phase)
                 : "memory");
}

__device__ __forceinline__ void copy_bulk(const Copy &copy, uint64_t *barrier) {
    if (copy.bytes > 0) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         shared_address(copy.to)),
                     "l"(copy.from), "r"(copy.bytes), "r"(shared_address(barrier))
                     : "memory");
    }
}
#endif

/* Waits for all warps of decode that multiply. */
__device__ __forceinline__ void sync_multipliers() {
    asm volatile("bar.sync 1, %0;" ::"n"(EB_CUDA_THREADS) : "memory");
}

#endif

__device__ __forceinline__ void follow_the_kernel_before() {
    await_the_kernel_before();
    let_the_next_kernel_start();
}

/* Copies by one warp, to be awaited with its stage. */
__device__ __forceinline__ void copy_by_warp(const Copy &copy, int lane) {
    for (int at = 16 * lane; at < copy.bytes; at += 16 * 32) {
        copy16(copy.to + at, copy.from + at, true);
    }
}

#endif
