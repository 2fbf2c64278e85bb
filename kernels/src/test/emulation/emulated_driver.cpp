/*
 * The CUDA harness over memory and kernels of the CPU: what qmoe_cuda_test is linked with where there is no GPU. MODULES is
 * the GPU that is emulated, as MULTIPROCESSORS:SHARED_BYTES, the latter for each of them.
 */
extern "C" {
#include "../cuda_harness.h"
}
#include "emulation.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#define DEFINE(variable, name, parameters) CUresult(*variable) parameters;
extern "C" {
CUDA_FUNCTIONS(DEFINE)
}
#undef DEFINE

#define EXPERT_KERNELS(F, io)                                                                                          \
    F(eb_decode_##io##_w2) F(eb_decode_##io##_w4) F(eb_decode_##io##_w8)                                               \
    F(eb_few_##io##_w2) F(eb_few_##io##_w4) F(eb_few_##io##_w8)
#define PREFILL_KERNELS(F, io) F(eb_prefill_##io##_w2) F(eb_prefill_##io##_w4) F(eb_prefill_##io##_w8)
#define KERNELS(F)                                                                                                     \
    F(eb_route) F(eb_group) F(eb_combine) EXPERT_KERNELS(F, f16) EXPERT_KERNELS(F, bf16) EXPERT_KERNELS(F, f32)        \
    PREFILL_KERNELS(F, f16) PREFILL_KERNELS(F, bf16)

#define DECLARE(kernel) extern "C" void kernel(const eb_cuda_run run);
KERNELS(DECLARE)
#undef DECLARE

namespace {

struct NamedKernel {
    const char *name;
    emulation::Kernel function;
};

template <void kernel(eb_cuda_run)>
void call(const void *parameters) {
    kernel(*static_cast<const eb_cuda_run *>(parameters));
}

#define NAME(kernel) {#kernel, call<kernel>},
const NamedKernel kernels[] = {KERNELS(NAME)};
#undef NAME

struct Launch {
    eb_cuda_launch launch;
    eb_cuda_run run;
};

bool capturing;
std::vector<Launch> captured;

template <class T>
T *host(CUdeviceptr address) {
    return reinterpret_cast<T *>(static_cast<uintptr_t>(address));
}

CUresult allocate(size_t alignment, size_t bytes, void **memory) {
    *memory = aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
    return *memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult allocate_on_device(CUdeviceptr *address, size_t bytes) {
    void *memory;
    CUresult result = allocate(256, bytes, &memory);
    *address = reinterpret_cast<uintptr_t>(memory);
    return result;
}

CUresult free_on_device(CUdeviceptr address) {
    free(host<void>(address));
    return CUDA_SUCCESS;
}

CUresult allocate_on_host(void **memory, size_t bytes, unsigned) {
    return allocate(4096, bytes, memory);
}

CUresult free_on_host(void *memory) {
    free(memory);
    return CUDA_SUCCESS;
}

CUresult copy_to_device(CUdeviceptr to, const void *from, size_t bytes) {
    memcpy(host<void>(to), from, bytes);
    return CUDA_SUCCESS;
}

CUresult copy_to_host(void *to, CUdeviceptr from, size_t bytes) {
    memcpy(to, host<void>(from), bytes);
    return CUDA_SUCCESS;
}

CUresult set(CUdeviceptr to, unsigned char value, size_t bytes) {
    memset(host<void>(to), value, bytes);
    return CUDA_SUCCESS;
}

void run(const Launch &what) {
    const char *name = expertbank_cuda_kernel_name(what.launch.kernel);
    for (const NamedKernel &kernel : kernels) {
        if (strcmp(kernel.name, name) == 0) {
            emulation::launch(kernel.function, &what.run, (unsigned)what.launch.blocks, (unsigned)what.launch.threads);
            return;
        }
    }
    fprintf(stderr, "no kernel %s\n", name);
    exit(4);
}

CUresult begin_capture(CUstream, CUstreamCaptureMode) {
    capturing = true;
    captured.clear();
    return CUDA_SUCCESS;
}

CUresult end_capture(CUstream, CUgraph *) {
    capturing = false;
    return CUDA_SUCCESS;
}

CUresult replay(CUgraphExec, CUstream) {
    for (const Launch &launch : captured) {
        run(launch);
    }
    return CUDA_SUCCESS;
}

}

void cuda_check(CUresult result, const char *call, const char *file, int line) {
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "%s:%d: %s gave %d\n", file, line, call, (int)result);
        exit(4);
    }
}

void cuda_open(const char *modules, eb_cuda_limits *limits) {
    if (sscanf(modules, "%d:%d", &limits->multiprocessors, &limits->shared_bytes_per_multiprocessor) != 2) {
        fprintf(stderr, "usage: qmoe_cuda_emulated MULTIPROCESSORS:SHARED_BYTES [SEED [CASES [FIRST]]]\n");
        exit(2);
    }
    limits->shared_bytes_per_block = limits->shared_bytes_per_multiprocessor - 1024;
    gpuAlloc = allocate_on_device;
    gpuFree = free_on_device;
    gpuHostAlloc = allocate_on_host;
    gpuHostFree = free_on_host;
    gpuToDevice = copy_to_device;
    gpuToHost = copy_to_host;
    gpuSet = set;
    gpuSynchronize = [] { return CUDA_SUCCESS; };
    gpuNewStream = [](CUstream *, unsigned) { return CUDA_SUCCESS; };
    gpuAwaitStream = [](CUstream) { return CUDA_SUCCESS; };
    gpuBeginCapture = begin_capture;
    gpuEndCapture = end_capture;
    gpuInstantiate = [](CUgraphExec *, CUgraph, unsigned long long) { return CUDA_SUCCESS; };
    gpuReplay = replay;
}

void cuda_launch(const eb_cuda_launch *launch, eb_cuda_run *with, CUstream) {
    with->step = launch->step;
    Launch what = {*launch, *with};
    if (capturing) {
        captured.push_back(what);
    } else {
        run(what);
    }
}
