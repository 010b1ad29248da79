//===- CudaCalls.h - Interface to CUDA, NCCL and torch -------- -*- C++ -*-===//
//
// The narrowest interface over the CUDA runtime, NCCL and torch's CUDA library: each function is
// one call of theirs, with its arguments and its result. The backend is written against it, so that
// tests on machines without a GPU can record the exact sequence of calls and let any of them fail.
// libfsdp_cuda.so holds the real implementation (RealCudaCalls.cpp).
//
// Thread-safe as CUDA and NCCL are. Sources: CUDA Runtime API 13.0, NCCL 2.28.9 (nccl.h).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_CUDACALLS_H
#define FSDP_RUNTIME_CUDA_CUDACALLS_H

#include "Status.h"
#include "cuda/kernels/Kernels.h"

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>

namespace fsdp::rt {

/// The values that determine one random draw.
struct TorchDraw {
  uint64_t seed = 0;
  /// Device memory that holds the seed, and a 0, for captured work to read.
  const int64_t *seedWord = nullptr, *zeroWord = nullptr;
};

class CudaCalls {
public:
  virtual ~CudaCalls() = default;

  // Device.
  virtual cudaError_t getDeviceCount(int *count) = 0;
  /// cudaGetDeviceProperties' name.
  virtual cudaError_t getDeviceName(int device, std::string *name) = 0;
  virtual cudaError_t setDevice(int device) = 0;
  virtual cudaError_t deviceGetStreamPriorityRange(int *least, int *greatest) = 0;
  /// "out of memory (cudaErrorMemoryAllocation)".
  virtual std::string describe(cudaError_t error) = 0;

  // Memory. A failed allocation clears CUDA's last error, so that torch's next check does not find
  // it.
  virtual cudaError_t malloc(void **memory, size_t bytes) = 0;
  virtual cudaError_t free(void *memory) = 0;
  virtual cudaError_t hostAlloc(void **memory, size_t bytes, unsigned flags) = 0;
  virtual cudaError_t freeHost(void *memory) = 0;
  virtual cudaError_t memcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                  cudaStream_t stream) = 0;
  virtual cudaError_t memsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) = 0;

  // Streams and events.
  virtual cudaError_t streamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                               int priority) = 0;
  virtual cudaError_t streamDestroy(cudaStream_t stream) = 0;
  virtual cudaError_t streamSynchronize(cudaStream_t stream) = 0;
  virtual cudaError_t streamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) = 0;
  virtual cudaError_t eventCreateWithFlags(cudaEvent_t *event, unsigned flags) = 0;
  virtual cudaError_t eventDestroy(cudaEvent_t event) = 0;
  virtual cudaError_t eventRecord(cudaEvent_t event, cudaStream_t stream) = 0;
  virtual cudaError_t eventSynchronize(cudaEvent_t event) = 0;
  virtual cudaError_t eventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) = 0;
  /// cuStreamWriteValue32: a write in stream order, without a kernel.
  virtual cudaError_t streamWriteValue32(cudaStream_t stream, uint32_t *word, uint32_t value) = 0;

  // Graphs.
  virtual cudaError_t streamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) = 0;
  virtual cudaError_t streamEndCapture(cudaStream_t stream, cudaGraph_t *graph) = 0;
  virtual cudaError_t graphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                       unsigned long long flags) = 0;
  virtual cudaError_t graphDestroy(cudaGraph_t graph) = 0;
  virtual cudaError_t graphLaunch(cudaGraphExec_t exec, cudaStream_t stream) = 0;
  virtual cudaError_t graphExecDestroy(cudaGraphExec_t exec) = 0;

  // Kernels of the backend itself.
  /// Launches a kernel of one thread that notes the time; `timer` < kNumTimers of TimerKernels.h.
  virtual cudaError_t launchStartTimer(unsigned timer, cudaStream_t stream) = 0;
  /// Launches a kernel of one thread that ends `nanoseconds` after that time.
  virtual cudaError_t launchAwaitTimer(unsigned timer, uint64_t nanoseconds,
                                       cudaStream_t stream) = 0;
  /// Launches a kernel of one thread that takes `nanoseconds`.
  virtual cudaError_t launchDelay(uint64_t nanoseconds, cudaStream_t stream) = 0;
  /// The kernels of kernels/Kernels.h, each by its arguments.
  virtual cudaError_t launchKernel(const OptimizerUpdateArguments &arguments,
                                   cudaStream_t stream) = 0;
  virtual cudaError_t launchKernel(const AverageArguments &arguments, cudaStream_t stream) = 0;
  virtual cudaError_t launchKernel(const PartialNormArguments &arguments, cudaStream_t stream) = 0;
  virtual cudaError_t launchKernel(const JoinPartialsArguments &arguments, cudaStream_t stream) = 0;
  virtual cudaError_t launchKernel(const ClipFactorArguments &arguments, cudaStream_t stream) = 0;
  virtual cudaError_t launchKernel(const AccumulateArguments &arguments, cudaStream_t stream) = 0;

  // Kernels that the compiler generated.
  /// cudaLibraryLoadData: PTX, NUL-terminated. `log`: the error messages of the driver's compiler.
  virtual cudaError_t libraryLoadData(cudaLibrary_t *library, const char *ptx,
                                      std::string *log) = 0;
  virtual cudaError_t libraryUnload(cudaLibrary_t library) = 0;
  virtual cudaError_t libraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library,
                                       const char *name) = 0;
  /// cudaLaunchKernel of `blocks` blocks of `threads` threads; `arguments` points to each argument.
  virtual cudaError_t launchKernel(cudaKernel_t kernel, unsigned blocks, unsigned threads,
                                   void **arguments, cudaStream_t stream) = 0;

  // torch.
  /// Initializes torch's CUDA state (allocator, generators, libraries) for `device`.
  virtual Status initializeTorch(int device) = 0;
  /// Makes `stream` the calling thread's current stream of `device`; null: torch's default stream.
  virtual Status setTorchStream(int device, cudaStream_t stream) = 0;
  /// Torch's name of `device`, for tensors.
  virtual c10::Device torchDevice(int device) = 0;
  /// Makes torch's allocations go through executor/OperatorAllocations.h. Takes effect once per
  /// process; further calls do nothing.
  virtual void installTorchPlacement() = 0;
  /// Frees device memory that torch's allocator caches unused. May throw.
  virtual void releaseTorchMemory() = 0;
  /// Until endTorchDraw(), torch's generator of `device` makes the draw `draw` on the calling
  /// thread. May throw torch's exceptions.
  virtual void beginTorchDraw(int device, const TorchDraw &draw) = 0;
  virtual void endTorchDraw(int device) = 0;

  // NCCL.
  virtual ncclResult_t ncclGetVersion(int *version) = 0;
  virtual ncclResult_t ncclGetUniqueId(ncclUniqueId *id) = 0;
  virtual ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id,
                                              int rank, ncclConfig_t *config) = 0;
  virtual ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newComm,
                                     ncclConfig_t *config) = 0;
  virtual ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) = 0;
  virtual ncclResult_t ncclCommFinalize(ncclComm_t comm) = 0;
  virtual ncclResult_t ncclCommDestroy(ncclComm_t comm) = 0;
  virtual ncclResult_t ncclCommAbort(ncclComm_t comm) = 0;
  /// "remote process exited or there was a network error: <what NCCL logged last>".
  virtual std::string describe(ncclResult_t result, ncclComm_t comm) = 0;

  virtual ncclResult_t ncclMemAlloc(void **memory, size_t bytes) = 0;
  virtual ncclResult_t ncclMemFree(void *memory) = 0;
  virtual ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *memory, size_t bytes,
                                              ncclWindow_t *window, int flags) = 0;
  virtual ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) = 0;

  virtual ncclResult_t ncclGroupStart() = 0;
  virtual ncclResult_t ncclGroupEnd() = 0;
  virtual ncclResult_t ncclAllGather(const void *input, void *output, size_t count,
                                     ncclDataType_t dtype, ncclComm_t comm,
                                     cudaStream_t stream) = 0;
  virtual ncclResult_t ncclReduceScatter(const void *input, void *output, size_t count,
                                         ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                         cudaStream_t stream) = 0;
  virtual ncclResult_t ncclAllReduce(const void *input, void *output, size_t count,
                                     ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                     cudaStream_t stream) = 0;
  virtual ncclResult_t ncclBroadcast(const void *input, void *output, size_t count,
                                     ncclDataType_t dtype, int root, ncclComm_t comm,
                                     cudaStream_t stream) = 0;
  virtual ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t dtype,
                                                ncclScalarResidence_t residence,
                                                ncclComm_t comm) = 0;
  virtual ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) = 0;
};

/// OK, or "cudaMalloc of 64 bytes: out of memory (cudaErrorMemoryAllocation)"; `what` names the
/// call.
inline Status checkCuda(CudaCalls &calls, cudaError_t error, const std::string &what) {
  return error == cudaSuccess ? Status() : Status::error(what + ": " + calls.describe(error));
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_CUDACALLS_H
