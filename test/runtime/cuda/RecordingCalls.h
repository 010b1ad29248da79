//===- RecordingCalls.h - Calls of CUDA and NCCL, written down --*- C++ -*-===//
//
// Stands in for CUDA, NCCL and torch on a machine without a GPU. Every call is noted as one line,
// in order: "cudaEventRecord e1 s2". Handles have names by kind and order of creation: streams s1,
// s2, events e1, graphs g1, executable graphs x1, communicators c1 (split from c1: c2, c3), windows
// w1, memory m1 ("m1+128" is 128 bytes into it), libraries l1 and kernels k1 of generated code. Any
// call can be made to fail.
//
// A device's memory is the host's and torch's device is the CPU, so that a step can really be run:
// copies, zeroing, marks, kernels (generated ones by their functions for CPUs) and torch's
// operators happen in an order that streams and events allow (SimulatedStreams.h). Collectives
// happen if there is a communicator to exchange through.
//
// Time is counted: each call takes a microsecond of all streams, a delay what it says.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_RUNTIME_CUDA_RECORDINGCALLS_H
#define FSDP_TEST_RUNTIME_CUDA_RECORDINGCALLS_H

#include "SimulatedStreams.h"
#include "TorchCapture.h"
#include "comm/Communicator.h"
#include "cuda/CudaCalls.h"
#include "executor/Random.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

class RecordingCalls final : public CudaCalls {
public:
  ~RecordingCalls() override;

  /// The lines since the last call.
  std::vector<std::string> take();
  /// Makes call number `nth` from now (from 1) of `function` return `error`: cudaError_t or
  /// ncclResult_t, as a number. Later ones succeed again.
  void fail(const std::string &function, int error, unsigned nth = 1);
  /// What ncclCommGetAsyncError tells, from now on: `polls` times ncclInProgress, then `result`.
  void setAsyncState(unsigned polls, ncclResult_t result);
  /// Makes a collective hang when it is run for the `nth` time (from 1), also as part of a graph:
  /// no stream marks further progress, and who waits for a stream or event waits for an abort.
  void hang(const std::string &collective, unsigned nth);
  /// Whether NCCL gives windows; without, registering succeeds and gives none.
  bool supportsWindows = true;
  int deviceCount = 4;
  int64_t callNs = 1000; // what a call takes
  std::string deviceName = "NVIDIA H100 80GB HBM3";
  /// Between the ranks of a test, with a lane for each set of ranks that NCCL's communicators have:
  /// those that are split while it is set meet on it. Null: collectives do nothing.
  Communicator *exchange = nullptr;
  /// The plans whose generated kernels are launched.
  const fsdp_plan *plan = nullptr;
  /// What to do inside a call, by its name, once it is noted. Set before other threads call.
  std::function<void(const std::string &)> onCall;

  cudaError_t getDeviceCount(int *count) override;
  cudaError_t getDeviceName(int device, std::string *name) override;
  cudaError_t setDevice(int device) override;
  cudaError_t deviceGetStreamPriorityRange(int *least, int *greatest) override;
  std::string describe(cudaError_t error) override;
  cudaError_t malloc(void **memory, size_t bytes) override;
  cudaError_t free(void *memory) override;
  cudaError_t hostAlloc(void **memory, size_t bytes, unsigned flags) override;
  cudaError_t freeHost(void *memory) override;
  cudaError_t memcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                          cudaStream_t stream) override;
  cudaError_t memsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) override;
  cudaError_t streamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) override;
  cudaError_t streamDestroy(cudaStream_t stream) override;
  cudaError_t streamSynchronize(cudaStream_t stream) override;
  cudaError_t streamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) override;
  cudaError_t eventCreateWithFlags(cudaEvent_t *event, unsigned flags) override;
  cudaError_t eventDestroy(cudaEvent_t event) override;
  cudaError_t eventRecord(cudaEvent_t event, cudaStream_t stream) override;
  cudaError_t eventSynchronize(cudaEvent_t event) override;
  cudaError_t eventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) override;
  cudaError_t streamWriteValue32(cudaStream_t stream, uint32_t *word, uint32_t value) override;
  cudaError_t streamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) override;
  cudaError_t streamEndCapture(cudaStream_t stream, cudaGraph_t *graph) override;
  cudaError_t graphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                               unsigned long long flags) override;
  cudaError_t graphDestroy(cudaGraph_t graph) override;
  cudaError_t graphLaunch(cudaGraphExec_t exec, cudaStream_t stream) override;
  cudaError_t graphExecDestroy(cudaGraphExec_t exec) override;
  cudaError_t launchStartTimer(unsigned timer, cudaStream_t stream) override;
  cudaError_t launchAwaitTimer(unsigned timer, uint64_t nanoseconds, cudaStream_t stream) override;
  cudaError_t launchDelay(uint64_t nanoseconds, cudaStream_t stream) override;
  cudaError_t launchKernel(const OptimizerUpdateArguments &arguments, cudaStream_t stream) override;
  cudaError_t launchKernel(const PartialNormArguments &arguments, cudaStream_t stream) override;
  cudaError_t launchKernel(const JoinPartialsArguments &arguments, cudaStream_t stream) override;
  cudaError_t launchKernel(const ClipFactorArguments &arguments, cudaStream_t stream) override;
  cudaError_t launchKernel(const AverageArguments &arguments, cudaStream_t stream) override;
  cudaError_t launchKernel(const AccumulateArguments &arguments, cudaStream_t stream) override;
  cudaError_t libraryLoadData(cudaLibrary_t *library, const char *ptx, std::string *log) override;
  cudaError_t libraryUnload(cudaLibrary_t library) override;
  cudaError_t libraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library,
                               const char *name) override;
  cudaError_t launchKernel(cudaKernel_t kernel, unsigned blocks, unsigned threads, void **arguments,
                           cudaStream_t stream) override;
  Status initializeTorch(int device) override;
  Status setTorchStream(int device, cudaStream_t stream) override;
  c10::Device torchDevice(int) override { return c10::Device(c10::kCPU); }
  void installTorchPlacement() override;
  void releaseTorchMemory() override;
  void beginTorchDraw(int device, const TorchDraw &draw) override;
  void endTorchDraw(int device) override;
  ncclResult_t ncclGetVersion(int *version) override;
  ncclResult_t ncclGetUniqueId(ncclUniqueId *id) override;
  ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                      ncclConfig_t *config) override;
  ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newComm,
                             ncclConfig_t *config) override;
  ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) override;
  ncclResult_t ncclCommFinalize(ncclComm_t comm) override;
  ncclResult_t ncclCommDestroy(ncclComm_t comm) override;
  ncclResult_t ncclCommAbort(ncclComm_t comm) override;
  std::string describe(ncclResult_t result, ncclComm_t comm) override;
  ncclResult_t ncclMemAlloc(void **memory, size_t bytes) override;
  ncclResult_t ncclMemFree(void *memory) override;
  ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *memory, size_t bytes,
                                      ncclWindow_t *window, int flags) override;
  ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) override;
  ncclResult_t ncclGroupStart() override;
  ncclResult_t ncclGroupEnd() override;
  ncclResult_t ncclAllGather(const void *input, void *output, size_t count, ncclDataType_t dtype,
                             ncclComm_t comm, cudaStream_t stream) override;
  ncclResult_t ncclReduceScatter(const void *input, void *output, size_t count,
                                 ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream) override;
  ncclResult_t ncclAllReduce(const void *input, void *output, size_t count, ncclDataType_t dtype,
                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) override;
  ncclResult_t ncclBroadcast(const void *input, void *output, size_t count, ncclDataType_t dtype,
                             int root, ncclComm_t comm, cudaStream_t stream) override;
  ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t dtype,
                                        ncclScalarResidence_t residence, ncclComm_t comm) override;
  ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) override;

private:
  /// Notes a call; its result as a number.
  template <typename... Arguments>
  int call(const std::string &function, const Arguments &...arguments);
  /// Notes a kernel; its arguments must be valid.
  template <typename Kernel, typename... Arguments>
  cudaError_t kernel(const std::string &name, const Kernel &checked, const Arguments &...arguments);
  /// Runs a collective of NCCL on `stream`, or captures it. `exchanges` gets the lane of `exchange`
  /// that stands for `comm`.
  void run(const std::string &collective, ncclComm_t comm, cudaStream_t stream,
           const std::function<void(unsigned)> &exchanges);
  /// The lane of `exchange` on which exactly the ranks meet that split with `color`, in the order
  /// of their keys. All ranks must call it.
  std::optional<unsigned> findLane(int color, int key);
  /// The same, for kernels with an effect.
  template <typename Kernel, typename... Arguments>
  cudaError_t effective(cudaStream_t stream, const std::string &name, const Kernel &kernel,
                        const Arguments &...arguments);
  /// Waits for the stream or event, and for an abort if a collective hangs.
  template <typename Handle> cudaError_t synchronize(Handle streamOrEvent);
  template <typename Handle> void make(Handle *handle, char kind);
  int allocate(const std::string &function, void **memory, size_t bytes);
  int release(const std::string &function, void *memory);
  std::string text(const void *pointer);
  /// Whether memory is neither the device's nor pinned.
  bool isPageable(const void *memory) { return text(memory) == "elsewhere"; }
  std::string text(int64_t number) { return std::to_string(number); }
  std::string text(float number);
  std::string text(const std::string &word) { return word; }

  /// What is launched of generated code.
  struct Generated {
    fsdp_kernel_function function;
    unsigned tensors, blocks, threads;
    int64_t units;
  };
  struct Block {
    size_t bytes;
    std::string name;
  };

  std::mutex mutex;
  std::vector<std::string> lines;
  int64_t nowNs = 0;
  std::map<const void *, int64_t> recordedNs;              // by event
  std::map<std::string, std::map<unsigned, int>> failures; // by function, by calls to go
  std::map<char, unsigned> made;
  std::map<const void *, std::string> handles;
  std::map<const std::byte *, Block> blocks;
  std::vector<char *> handleMemory;
  unsigned inProgress = 0;
  ncclResult_t asyncResult = ncclSuccess;
  std::map<ncclRedOp_t, double> factors; // of scaled sums
  std::map<ncclComm_t, unsigned> lanes;  // of `exchange`

  std::condition_variable abortCalled;
  bool aborted = false;
  std::string hanging; // the collective, as long as it is to come
  unsigned hangsIn = 0;
  bool hung = false;
  SimulatedStreams streams;
  std::optional<TorchCapture> operators; // while the torch stream captures
  std::optional<RandomDraw> draw;
  cudaStream_t torchStream = nullptr;
  std::map<const void *, std::shared_ptr<SimulatedGraph>> graphs; // by either handle
  std::map<const void *, std::string> libraries;                  // their code
  std::map<const void *, Generated> generated;                    // by kernel
};

template <typename... Arguments>
int RecordingCalls::call(const std::string &function, const Arguments &...arguments) {
  std::unique_lock lock(mutex);
  std::string line = function;
  ((line += " " + text(arguments)), ...);
  lines.push_back(line);
  nowNs += callNs;
  std::map<unsigned, int> left;
  int result = 0;
  for (auto [calls, error] : failures[function])
    if (calls == 1)
      result = error;
    else
      left[calls - 1] = error;
  failures[function] = left;
  lock.unlock();
  if (onCall)
    onCall(function);
  return result;
}

template <typename Handle> void RecordingCalls::make(Handle *handle, char kind) {
  std::lock_guard lock(mutex);
  handleMemory.push_back(new char);
  *handle = reinterpret_cast<Handle>(handleMemory.back());
  handles[*handle] = kind + std::to_string(++made[kind]);
}

} // namespace fsdp::rt

#endif // FSDP_TEST_RUNTIME_CUDA_RECORDINGCALLS_H
