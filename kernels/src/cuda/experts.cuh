/* The kernels that compute experts, for one element type of activations: EXPERTBANK_IO. */
#include "decode.cuh"
#include "prefill.cuh"

#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define KERNEL_NAME(phase, io, bits) eb_##phase##_##io##_w##bits

#define DECODE_KERNELS(io, bits)                                                                                       \
    KERNEL(EB_CUDA_DECODE_THREADS, 2) KERNEL_NAME(decode, io, bits)(const __grid_constant__ eb_cuda_run run) {            \
        decode_experts<EXPERTBANK_IO, bits, EB_CUDA_DECODE_COLUMNS / TILE_COLUMNS>(run);                               \
    }                                                                                                                  \
    KERNEL(EB_CUDA_FEW_THREADS, 2) KERNEL_NAME(few, io, bits)(const __grid_constant__ eb_cuda_run run) {               \
        decode_experts<EXPERTBANK_IO, bits, EB_CUDA_FEW_COLUMNS / TILE_COLUMNS>(run);                                  \
    }

#define PREFILL_KERNEL(io, bits)                                                                                       \
    KERNEL(EB_CUDA_THREADS, 2) KERNEL_NAME(prefill, io, bits)(const __grid_constant__ eb_cuda_run run) {                  \
        prefill_experts<EXPERTBANK_IO, bits>(run);                                                                     \
    }
