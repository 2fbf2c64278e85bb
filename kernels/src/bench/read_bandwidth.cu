/* Reads memory, for what reading in place and from device memory can reach at best. */
#include <cstdint>

struct read_run {
    const uint4 *data;
    uint64_t count;
    uint32_t *out;
};

extern "C" __global__ void __launch_bounds__(256) eb_read_bandwidth(const __grid_constant__ read_run run) {
    const uint4 *data = run.data;
    uint64_t count = run.count;
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    uint64_t at = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t sum = 0;
    for (; at + 3 * stride < count; at += 4 * stride) {
        uint4 a = __ldcs(data + at);
        uint4 b = __ldcs(data + at + stride);
        uint4 c = __ldcs(data + at + 2 * stride);
        uint4 d = __ldcs(data + at + 3 * stride);
        sum += a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    for (; at < count; at += stride) {
        uint4 a = __ldcs(data + at);
        sum += a.x ^ a.y ^ a.z ^ a.w;
    }
    /* Never true for every thread, and the compiler does not know it. */
    if (sum == 0x12345678u) {
        *run.out = sum;
    }
}
