#include "cuda_harness.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFINE(variable, name, parameters) CUresult(*variable) parameters;
CUDA_FUNCTIONS(DEFINE)
#undef DEFINE

#define MAX_KERNELS 64

static CUfunction functions[MAX_KERNELS];

void cuda_check(CUresult result, const char *call, const char *file, int line) {
    if (result != CUDA_SUCCESS) {
        const char *name = "?";
        if (gpuErrorName != NULL) {
            gpuErrorName(result, &name);
        }
        fprintf(stderr, "%s:%d: %s gave %s (%d)\n", file, line, call, name, (int)result);
        exit(3);
    }
}

static void load_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "no CUDA driver: %s\n", dlerror());
        exit(2);
    }
#define LOAD(variable, name, parameters)                                                                               \
    *(void **)&variable = dlsym(library, name);                                                                        \
    if (variable == NULL) {                                                                                            \
        fprintf(stderr, "the CUDA driver has no %s\n", name);                                                          \
        exit(2);                                                                                                       \
    }
    CUDA_FUNCTIONS(LOAD)
#undef LOAD
}

static void *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    void *content = malloc((size_t)bytes);
    if (fread(content, 1, (size_t)bytes, file) != (size_t)bytes) {
        perror(path);
        exit(2);
    }
    fclose(file);
    return content;
}

void cuda_open(const char *modules, eb_cuda_limits *limits) {
    static const char *const names[] = {"route.fatbin", "experts_f32.fatbin", "experts_f16.fatbin",
                                        "experts_bf16.fatbin"};
    load_driver();
    CHECK(gpuInit(0));
    CUdevice device;
    CUcontext context;
    CHECK(gpuDeviceGet(&device, 0));
    CHECK(gpuPrimaryRetain(&context, device));
    CHECK(gpuSetCurrent(context));
    CHECK(gpuDeviceGetAttribute(&limits->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    CHECK(gpuDeviceGetAttribute(&limits->shared_bytes_per_block,
                                CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
    CHECK(gpuDeviceGetAttribute(&limits->shared_bytes_per_multiprocessor,
                                CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CUmodule module;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", modules, names[i]);
        void *image = read_file(path);
        CHECK(gpuLoad(&module, image));
        free(image);
        const char *name;
        for (int32_t k = 0; (name = expertbank_cuda_kernel_name(k)) != NULL; k++) {
            CUfunction found;
            if (functions[k] == NULL && gpuFunction(&found, module, name) == CUDA_SUCCESS) {
                functions[k] = found;
                CHECK(gpuSetFunction(found, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    k < 3 ? 0 : limits->shared_bytes_per_block));
            }
        }
    }
}

CUfunction cuda_kernel(int32_t kernel) {
    return functions[kernel];
}

CUfunction cuda_bench_function(const char *module_file, const char *name) {
    CUmodule module;
    CUfunction function;
    void *image = read_file(module_file);
    CHECK(gpuLoad(&module, image));
    free(image);
    CHECK(gpuFunction(&function, module, name));
    return function;
}

void cuda_launch(const eb_cuda_launch *launch, eb_cuda_run *run, CUstream stream) {
    run->step = launch->step;
    void *parameters[] = {run};
    CUlaunchAttribute follows = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                 .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {.gridDimX = (unsigned)launch->blocks, .gridDimY = 1, .gridDimZ = 1,
                             .blockDimX = (unsigned)launch->threads, .blockDimY = 1, .blockDimZ = 1,
                             .sharedMemBytes = (unsigned)launch->shared_bytes, .hStream = stream,
                             .attrs = &follows, .numAttrs = 1};
    CHECK(gpuLaunchAs(&config, cuda_kernel(launch->kernel), parameters, NULL));
}
