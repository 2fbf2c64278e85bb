// The two functions of CUDA 12's runtime that CUDA 13 has changed, for forwarders that peer.py builds.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <driver_types.h>
#include <string.h>

extern void* forward_library;

// What CUDA 12 calls cudaDeviceProp: its order and its widths are the contract.
typedef struct {
  char name[256];
  cudaUUID_t uuid;
  char luid[8];
  unsigned luidDeviceNodeMask;
  size_t totalGlobalMem, sharedMemPerBlock;
  int regsPerBlock, warpSize;
  size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
  size_t totalConstMem;
  int major, minor;
  size_t textureAlignment, texturePitchAlignment;
  int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
  int texturesAndSurfaces[40];
  size_t surfaceAlignment;
  int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing;
  int memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported;
  int singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported;
  int canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
  unsigned gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;
  int reserved[63];
} Cuda12Properties;
_Static_assert(sizeof(Cuda12Properties) == 1032, "CUDA 12's structure has 1032 bytes");

cudaError_t cudaGetDeviceProperties_v2(Cuda12Properties* old, int device) {
  struct cudaDeviceProp now;
  cudaError_t (*get)(struct cudaDeviceProp*, int) = dlsym(forward_library, "cudaGetDeviceProperties");
  cudaError_t error = get(&now, device);
  if (error != cudaSuccess) return error;
  memset(old, 0, sizeof *old);
#define COPY(field) memcpy(&old->field, &now.field, sizeof old->field)
  COPY(name); COPY(uuid); COPY(luid); COPY(luidDeviceNodeMask);
  COPY(totalGlobalMem); COPY(sharedMemPerBlock); COPY(regsPerBlock); COPY(warpSize); COPY(memPitch);
  COPY(maxThreadsPerBlock); COPY(maxThreadsDim); COPY(maxGridSize); COPY(totalConstMem); COPY(major); COPY(minor);
  COPY(textureAlignment); COPY(texturePitchAlignment); COPY(multiProcessorCount); COPY(integrated);
  COPY(canMapHostMemory); COPY(surfaceAlignment); COPY(concurrentKernels); COPY(ECCEnabled); COPY(pciBusID);
  COPY(pciDeviceID); COPY(pciDomainID); COPY(tccDriver); COPY(asyncEngineCount); COPY(unifiedAddressing);
  COPY(memoryBusWidth); COPY(l2CacheSize); COPY(persistingL2CacheMaxSize); COPY(maxThreadsPerMultiProcessor);
  COPY(streamPrioritiesSupported); COPY(globalL1CacheSupported); COPY(localL1CacheSupported);
  COPY(sharedMemPerMultiprocessor); COPY(regsPerMultiprocessor); COPY(managedMemory); COPY(isMultiGpuBoard);
  COPY(multiGpuBoardGroupID); COPY(hostNativeAtomicSupported); COPY(pageableMemoryAccess);
  COPY(concurrentManagedAccess); COPY(computePreemptionSupported); COPY(canUseHostPointerForRegisteredMem);
  COPY(cooperativeLaunch); COPY(sharedMemPerBlockOptin); COPY(pageableMemoryAccessUsesHostPageTables);
  COPY(directManagedMemAccessFromHost); COPY(maxBlocksPerMultiProcessor); COPY(accessPolicyMaxWindowSize);
  COPY(reservedSharedMemPerBlock); COPY(hostRegisterSupported); COPY(hostRegisterReadOnlySupported);
  COPY(memoryPoolsSupported); COPY(clusterLaunch); COPY(unifiedFunctionPointers);
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult* result) {
  cudaError_t (*get)(const char*, void**, unsigned, unsigned long long, enum cudaDriverEntryPointQueryResult*) =
      dlsym(forward_library, "cudaGetDriverEntryPointByVersion");
  return get(symbol, function, 12080, flags, result);
}
