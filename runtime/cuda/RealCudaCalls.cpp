//===- RealCudaCalls.cpp - Calls CUDA, NCCL and torch ---------------------===//

#include "cuda/RealCudaCalls.h"
#include "comm/Exceptions.h"
#include "cuda/CudaPlacementAllocator.h"
#include "cuda/TimerKernels.h"
#include "cuda/TorchDraws.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cudaTypedefs.h>

using namespace fsdp::rt;

namespace {

/// Returns `error`, and clears CUDA's last error, so that no other caller of cudaGetLastError()
/// finds it.
cudaError_t taken(cudaError_t error) {
  if (error != cudaSuccess)
    (void)cudaGetLastError();
  return error;
}

/// The driver's function, looked up at run time, since a machine may have no driver.
PFN_cuStreamWriteValue32_v11070 findStreamWriteValue32(cudaError_t *error) {
  void *function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  *error = cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &function, 12000,
                                            cudaEnableDefault, &found);
  if (*error == cudaSuccess && (found != cudaDriverEntryPointSuccess || !function))
    *error = cudaErrorNotSupported;
  return reinterpret_cast<PFN_cuStreamWriteValue32_v11070>(function);
}

class RealCudaCalls final : public CudaCalls {
public:
  cudaError_t getDeviceCount(int *count) override { return taken(cudaGetDeviceCount(count)); }
  cudaError_t getDeviceName(int device, std::string *name) override {
    cudaDeviceProp properties{};
    cudaError_t error = cudaGetDeviceProperties(&properties, device);
    *name = properties.name;
    return taken(error);
  }
  cudaError_t setDevice(int device) override { return taken(cudaSetDevice(device)); }
  cudaError_t deviceGetStreamPriorityRange(int *least, int *greatest) override {
    return taken(cudaDeviceGetStreamPriorityRange(least, greatest));
  }
  std::string describe(cudaError_t error) override {
    return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
  }

  cudaError_t malloc(void **memory, size_t bytes) override {
    return taken(cudaMalloc(memory, bytes));
  }
  cudaError_t free(void *memory) override { return taken(cudaFree(memory)); }
  cudaError_t hostAlloc(void **memory, size_t bytes, unsigned flags) override {
    return taken(cudaHostAlloc(memory, bytes, flags));
  }
  cudaError_t freeHost(void *memory) override { return taken(cudaFreeHost(memory)); }
  cudaError_t memcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                          cudaStream_t stream) override {
    return taken(cudaMemcpyAsync(to, from, bytes, kind, stream));
  }
  cudaError_t memsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) override {
    return taken(cudaMemsetAsync(to, value, bytes, stream));
  }

  cudaError_t streamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                       int priority) override {
    return taken(cudaStreamCreateWithPriority(stream, flags, priority));
  }
  cudaError_t streamDestroy(cudaStream_t stream) override {
    return taken(cudaStreamDestroy(stream));
  }
  cudaError_t streamSynchronize(cudaStream_t stream) override {
    return taken(cudaStreamSynchronize(stream));
  }
  cudaError_t streamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) override {
    return taken(cudaStreamWaitEvent(stream, event, flags));
  }
  cudaError_t eventCreateWithFlags(cudaEvent_t *event, unsigned flags) override {
    return taken(cudaEventCreateWithFlags(event, flags));
  }
  cudaError_t eventDestroy(cudaEvent_t event) override { return taken(cudaEventDestroy(event)); }
  cudaError_t eventRecord(cudaEvent_t event, cudaStream_t stream) override {
    return taken(cudaEventRecord(event, stream));
  }
  cudaError_t eventSynchronize(cudaEvent_t event) override {
    return taken(cudaEventSynchronize(event));
  }
  cudaError_t eventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) override {
    return taken(cudaEventElapsedTime(milliseconds, begin, end));
  }
  cudaError_t streamWriteValue32(cudaStream_t stream, uint32_t *word, uint32_t value) override {
    static cudaError_t missing = cudaSuccess;
    static PFN_cuStreamWriteValue32_v11070 write = findStreamWriteValue32(&missing);
    if (missing != cudaSuccess)
      return taken(missing);
    // Mapped host memory has one address for host and device. The driver's codes are the runtime's.
    return static_cast<cudaError_t>(
        write(stream, reinterpret_cast<CUdeviceptr>(word), value, CU_STREAM_WRITE_VALUE_DEFAULT));
  }

  cudaError_t streamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) override {
    return taken(cudaStreamBeginCapture(stream, mode));
  }
  cudaError_t streamEndCapture(cudaStream_t stream, cudaGraph_t *graph) override {
    return taken(cudaStreamEndCapture(stream, graph));
  }
  cudaError_t graphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                               unsigned long long flags) override {
    return taken(cudaGraphInstantiate(exec, graph, flags));
  }
  cudaError_t graphDestroy(cudaGraph_t graph) override { return taken(cudaGraphDestroy(graph)); }
  cudaError_t graphLaunch(cudaGraphExec_t exec, cudaStream_t stream) override {
    return taken(cudaGraphLaunch(exec, stream));
  }
  cudaError_t graphExecDestroy(cudaGraphExec_t exec) override {
    return taken(cudaGraphExecDestroy(exec));
  }

  cudaError_t launchStartTimer(unsigned timer, cudaStream_t stream) override {
    return startTimer(timer, stream);
  }
  cudaError_t launchAwaitTimer(unsigned timer, uint64_t nanoseconds, cudaStream_t stream) override {
    return awaitTimer(timer, nanoseconds, stream);
  }
  cudaError_t launchDelay(uint64_t nanoseconds, cudaStream_t stream) override {
    return fsdp::rt::delay(nanoseconds, stream);
  }
  cudaError_t launchKernel(const OptimizerUpdateArguments &arguments,
                           cudaStream_t stream) override {
    return fsdp::rt::launchKernel(arguments, stream);
  }
  cudaError_t launchKernel(const PartialNormArguments &arguments, cudaStream_t stream) override {
    return fsdp::rt::launchKernel(arguments, stream);
  }
  cudaError_t launchKernel(const JoinPartialsArguments &arguments, cudaStream_t stream) override {
    return fsdp::rt::launchKernel(arguments, stream);
  }
  cudaError_t launchKernel(const ClipFactorArguments &arguments, cudaStream_t stream) override {
    return fsdp::rt::launchKernel(arguments, stream);
  }
  cudaError_t launchKernel(const AverageArguments &arguments, cudaStream_t stream) override {
    return fsdp::rt::launchKernel(arguments, stream);
  }
  cudaError_t launchKernel(const AccumulateArguments &arguments, cudaStream_t stream) override {
    return fsdp::rt::launchKernel(arguments, stream);
  }

  cudaError_t libraryLoadData(cudaLibrary_t *library, const char *ptx, std::string *log) override {
    char text[4096] = "";
    cudaJitOption options[] = {cudaJitErrorLogBuffer, cudaJitErrorLogBufferSizeBytes};
    void *values[] = {text, reinterpret_cast<void *>(sizeof(text))};
    cudaError_t error =
        cudaLibraryLoadData(library, ptx, options, values, std::size(options), nullptr, nullptr, 0);
    *log = text;
    return taken(error);
  }
  cudaError_t libraryUnload(cudaLibrary_t library) override {
    return taken(cudaLibraryUnload(library));
  }
  cudaError_t libraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library,
                               const char *name) override {
    return taken(cudaLibraryGetKernel(kernel, library, name));
  }
  cudaError_t launchKernel(cudaKernel_t kernel, unsigned blocks, unsigned threads, void **arguments,
                           cudaStream_t stream) override {
    return taken(cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(blocks),
                                  dim3(threads), arguments, 0, stream));
  }

  Status initializeTorch(int device) override {
    try {
      at::globalContext().lazyInitDevice(at::kCUDA);
      c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
      return {};
    } catch (const std::exception &exception) {
      return Status::error("torch cannot use CUDA device " + std::to_string(device) + ": " +
                           firstLine(exception));
    }
  }
  Status setTorchStream(int device, cudaStream_t stream) override {
    auto index = static_cast<c10::DeviceIndex>(device);
    try {
      c10::cuda::setCurrentCUDAStream(stream ? c10::cuda::getStreamFromExternal(stream, index)
                                             : c10::cuda::getDefaultCUDAStream(index));
      return {};
    } catch (const std::exception &exception) {
      return Status::error("torch does not take a stream: " + firstLine(exception));
    }
  }

  c10::Device torchDevice(int device) override {
    return {c10::kCUDA, static_cast<c10::DeviceIndex>(device)};
  }
  void installTorchPlacement() override { installCudaPlacementAllocator(); }
  void releaseTorchMemory() override { c10::cuda::CUDACachingAllocator::emptyCache(); }
  void beginTorchDraw(int device, const TorchDraw &draw) override {
    fsdp::rt::beginTorchDraw(device, draw);
  }
  void endTorchDraw(int device) override { fsdp::rt::endTorchDraw(device); }

  ncclResult_t ncclGetVersion(int *version) override { return ::ncclGetVersion(version); }
  ncclResult_t ncclGetUniqueId(ncclUniqueId *id) override { return ::ncclGetUniqueId(id); }
  ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                      ncclConfig_t *config) override {
    return ::ncclCommInitRankConfig(comm, ranks, id, rank, config);
  }
  ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newComm,
                             ncclConfig_t *config) override {
    return ::ncclCommSplit(comm, color, key, newComm, config);
  }
  ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) override {
    return ::ncclCommGetAsyncError(comm, error);
  }
  ncclResult_t ncclCommFinalize(ncclComm_t comm) override { return ::ncclCommFinalize(comm); }
  ncclResult_t ncclCommDestroy(ncclComm_t comm) override { return ::ncclCommDestroy(comm); }
  ncclResult_t ncclCommAbort(ncclComm_t comm) override { return ::ncclCommAbort(comm); }
  std::string describe(ncclResult_t result, ncclComm_t comm) override {
    std::string text = ncclGetErrorString(result);
    const char *last = ncclGetLastError(comm);
    return last && *last ? text + ": " + last : text;
  }

  ncclResult_t ncclMemAlloc(void **memory, size_t bytes) override {
    ncclResult_t result = ::ncclMemAlloc(memory, bytes);
    if (result != ncclSuccess)
      (void)cudaGetLastError();
    return result;
  }
  ncclResult_t ncclMemFree(void *memory) override { return ::ncclMemFree(memory); }
  ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *memory, size_t bytes,
                                      ncclWindow_t *window, int flags) override {
    return ::ncclCommWindowRegister(comm, memory, bytes, window, flags);
  }
  ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) override {
    return ::ncclCommWindowDeregister(comm, window);
  }

  ncclResult_t ncclGroupStart() override { return ::ncclGroupStart(); }
  ncclResult_t ncclGroupEnd() override { return ::ncclGroupEnd(); }
  ncclResult_t ncclAllGather(const void *input, void *output, size_t count, ncclDataType_t dtype,
                             ncclComm_t comm, cudaStream_t stream) override {
    return ::ncclAllGather(input, output, count, dtype, comm, stream);
  }
  ncclResult_t ncclReduceScatter(const void *input, void *output, size_t count,
                                 ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream) override {
    return ::ncclReduceScatter(input, output, count, dtype, op, comm, stream);
  }
  ncclResult_t ncclAllReduce(const void *input, void *output, size_t count, ncclDataType_t dtype,
                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) override {
    return ::ncclAllReduce(input, output, count, dtype, op, comm, stream);
  }
  ncclResult_t ncclBroadcast(const void *input, void *output, size_t count, ncclDataType_t dtype,
                             int root, ncclComm_t comm, cudaStream_t stream) override {
    return ::ncclBroadcast(input, output, count, dtype, root, comm, stream);
  }
  ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t dtype,
                                        ncclScalarResidence_t residence, ncclComm_t comm) override {
    return ::ncclRedOpCreatePreMulSum(op, scalar, dtype, residence, comm);
  }
  ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) override {
    return ::ncclRedOpDestroy(op, comm);
  }
};

} // namespace

CudaCalls &fsdp::rt::realCudaCalls() {
  static RealCudaCalls calls;
  return calls;
}
