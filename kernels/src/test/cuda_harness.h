/* The CUDA driver, loaded by name, and the kernels' modules: what the native CUDA test and benchmark share. */
#ifndef EXPERTBANK_CUDA_HARNESS_H
#define EXPERTBANK_CUDA_HARNESS_H

#include "../cuda/qmoe_cuda.h"

#include <cuda.h>

/* Every driver function that is used here: name in the library, result, parameters. */
#define CUDA_FUNCTIONS(F)                                                                                              \
    F(gpuInit, "cuInit", (unsigned))                                                                                    \
    F(gpuDeviceGet, "cuDeviceGet", (CUdevice *, int))                                                                  \
    F(gpuDeviceGetName, "cuDeviceGetName", (char *, int, CUdevice))                                                    \
    F(gpuDeviceGetAttribute, "cuDeviceGetAttribute", (int *, CUdevice_attribute, CUdevice))                            \
    F(gpuPrimaryRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))                                            \
    F(gpuSetCurrent, "cuCtxSetCurrent", (CUcontext))                                                                    \
    F(gpuSynchronize, "cuCtxSynchronize", (void))                                                                       \
    F(gpuLoad, "cuModuleLoadData", (CUmodule *, const void *))                                                          \
    F(gpuFunction, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *))                                       \
    F(gpuSetFunction, "cuFuncSetAttribute", (CUfunction, CUfunction_attribute, int))                                    \
    F(gpuAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                                                               \
    F(gpuFree, "cuMemFree_v2", (CUdeviceptr))                                                                           \
    F(gpuHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))                                                      \
    F(gpuHostFree, "cuMemFreeHost", (void *))                                                                           \
    F(gpuToDevice, "cuMemcpyHtoD_v2", (CUdeviceptr, const void *, size_t))                                              \
    F(gpuToHost, "cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t))                                                      \
    F(gpuToDeviceAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void *, size_t, CUstream))                          \
    F(gpuSet, "cuMemsetD8_v2", (CUdeviceptr, unsigned char, size_t))                                                    \
    F(gpuLaunch, "cuLaunchKernel",                                                                                     \
      (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **))  \
    F(gpuLaunchAs, "cuLaunchKernelEx", (const CUlaunchConfig *, CUfunction, void **, void **))                         \
    F(gpuNewStream, "cuStreamCreate", (CUstream *, unsigned))                                                           \
    F(gpuAwaitStream, "cuStreamSynchronize", (CUstream))                                                                \
    F(gpuBeginCapture, "cuStreamBeginCapture_v2", (CUstream, CUstreamCaptureMode))                                      \
    F(gpuEndCapture, "cuStreamEndCapture", (CUstream, CUgraph *))                                                       \
    F(gpuInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec *, CUgraph, unsigned long long))                      \
    F(gpuReplay, "cuGraphLaunch", (CUgraphExec, CUstream))                                                              \
    F(gpuNewEvent, "cuEventCreate", (CUevent *, unsigned))                                                              \
    F(gpuRecord, "cuEventRecord", (CUevent, CUstream))                                                                  \
    F(gpuElapsed, "cuEventElapsedTime", (float *, CUevent, CUevent))                                                    \
    F(gpuErrorName, "cuGetErrorName", (CUresult, const char **))

#define DECLARE(variable, name, parameters) extern CUresult(*variable) parameters;
CUDA_FUNCTIONS(DECLARE)
#undef DECLARE

#define CHECK(call) cuda_check(call, #call, __FILE__, __LINE__)

void cuda_check(CUresult result, const char *call, const char *file, int line);

/* Opens the first GPU and the modules in a directory; ends the process when there is none. */
void cuda_open(const char *modules, eb_cuda_limits *limits);

/* The kernel of that number. */
CUfunction cuda_kernel(int32_t kernel);

/* A function of a module of its own. */
CUfunction cuda_bench_function(const char *module_file, const char *name);

/* Launches one kernel of a plan. */
void cuda_launch(const eb_cuda_launch *launch, eb_cuda_run *run, CUstream stream);

#endif
