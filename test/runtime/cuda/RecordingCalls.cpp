//===- RecordingCalls.cpp - Calls of CUDA and torch, written down ---------===//

#include "RecordingCalls.h"
#include "KernelEffects.h"
#include "executor/CpuLaunches.h"
#include "executor/PlacementAllocator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

using namespace fsdp::rt;

//===----------------------------------------------------------------------===//
// The record
//===----------------------------------------------------------------------===//

RecordingCalls::~RecordingCalls() {
  for (const auto &[address, block] : blocks)
    std::free(const_cast<std::byte *>(address));
  for (char *handle : handleMemory)
    delete handle;
}

std::vector<std::string> RecordingCalls::take() {
  std::lock_guard lock(mutex);
  return std::exchange(lines, {});
}

void RecordingCalls::fail(const std::string &function, int error, unsigned nth) {
  std::lock_guard lock(mutex);
  failures[function][nth] = error;
}

void RecordingCalls::hang(const std::string &collective, unsigned nth) {
  hanging = collective;
  hangsIn = nth;
}

void RecordingCalls::run(const std::string &collective, ncclComm_t comm, cudaStream_t stream,
                         const std::function<void(unsigned)> &exchanges) {
  streams.run(stream, [=, this] {
    std::unique_lock lock(mutex);
    hung |= collective == hanging && --hangsIn == 0;
    bool runs = exchange && !hung && !aborted;
    lock.unlock();
    if (runs)
      exchanges(lanes.at(comm));
  });
}

template <typename Handle> cudaError_t RecordingCalls::synchronize(Handle streamOrEvent) {
  cudaError_t result = streams.synchronize(streamOrEvent);
  std::unique_lock lock(mutex);
  abortCalled.wait(lock, [&] { return !hung || aborted; });
  return result;
}

void RecordingCalls::setAsyncState(unsigned polls, ncclResult_t result) {
  std::lock_guard lock(mutex);
  inProgress = polls;
  asyncResult = result;
}

std::string RecordingCalls::text(const void *pointer) {
  if (!pointer)
    return "null";
  if (auto found = handles.find(pointer); found != handles.end())
    return found->second;
  const auto *address = static_cast<const std::byte *>(pointer);
  auto block = blocks.upper_bound(address);
  if (block == blocks.begin())
    return "elsewhere";
  --block;
  auto offset = static_cast<size_t>(address - block->first);
  if (offset > block->second.bytes)
    return "elsewhere";
  return block->second.name + (offset ? "+" + std::to_string(offset) : "");
}

int RecordingCalls::allocate(const std::string &function, void **memory, size_t bytes) {
  int result = call(function, static_cast<int64_t>(bytes));
  if (result != 0)
    return result;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  // Not zeroed: neither is CUDA's.
  std::memset(*memory, 0x55, bytes);
  std::lock_guard lock(mutex);
  blocks[static_cast<std::byte *>(*memory)] = {bytes, "m" + std::to_string(++made['m'])};
  return result;
}

int RecordingCalls::release(const std::string &function, void *memory) {
  int result = call(function, memory);
  streams.synchronizeAll();
  std::lock_guard lock(mutex);
  if (blocks.erase(static_cast<std::byte *>(memory)))
    std::free(memory);
  return result;
}

//===----------------------------------------------------------------------===//
// CUDA
//===----------------------------------------------------------------------===//

static cudaError_t cuda(int result) { return static_cast<cudaError_t>(result); }

cudaError_t RecordingCalls::getDeviceCount(int *count) {
  *count = deviceCount;
  return cuda(call("cudaGetDeviceCount"));
}
cudaError_t RecordingCalls::getDeviceName(int device, std::string *name) {
  *name = deviceName;
  return cuda(call("cudaGetDeviceProperties", int64_t(device)));
}
cudaError_t RecordingCalls::setDevice(int device) {
  return cuda(call("cudaSetDevice", int64_t(device)));
}
cudaError_t RecordingCalls::deviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return cuda(call("cudaDeviceGetStreamPriorityRange"));
}
std::string RecordingCalls::describe(cudaError_t error) {
  return "cuda error " + std::to_string(error);
}
cudaError_t RecordingCalls::malloc(void **memory, size_t bytes) {
  return cuda(allocate("cudaMalloc", memory, bytes));
}
cudaError_t RecordingCalls::free(void *memory) { return cuda(release("cudaFree", memory)); }
cudaError_t RecordingCalls::hostAlloc(void **memory, size_t bytes, unsigned) {
  return cuda(allocate("cudaHostAlloc", memory, bytes));
}
cudaError_t RecordingCalls::freeHost(void *memory) { return cuda(release("cudaFreeHost", memory)); }
cudaError_t RecordingCalls::memcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                                        cudaStream_t stream) {
  int result = call("cudaMemcpyAsync", to, from, int64_t(bytes), stream);
  if (result != 0)
    return cuda(result);
  streams.run(stream, [=] { std::memmove(to, from, bytes); });
  std::unique_lock lock(mutex);
  bool blocks = isPageable(to) || isPageable(from);
  lock.unlock();
  return blocks && !streams.isCapturing(stream) ? synchronize(stream) : cudaSuccess;
}
cudaError_t RecordingCalls::memsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  int result = call("cudaMemsetAsync", to, int64_t(value), int64_t(bytes), stream);
  if (result == 0)
    streams.run(stream, [=] { std::memset(to, value, bytes); });
  return cuda(result);
}
cudaError_t RecordingCalls::streamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                                     int priority) {
  int result = call("cudaStreamCreateWithPriority", int64_t(flags), int64_t(priority));
  if (result == 0)
    make(stream, 's');
  return cuda(result);
}
cudaError_t RecordingCalls::streamDestroy(cudaStream_t stream) {
  return cuda(call("cudaStreamDestroy", stream));
}
cudaError_t RecordingCalls::streamSynchronize(cudaStream_t stream) {
  int result = call("cudaStreamSynchronize", stream);
  return result ? cuda(result) : synchronize(stream);
}
cudaError_t RecordingCalls::streamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  int result = call("cudaStreamWaitEvent", stream, event);
  if (result == 0)
    streams.wait(stream, event);
  return cuda(result);
}
cudaError_t RecordingCalls::eventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  int result = call("cudaEventCreateWithFlags", int64_t(flags));
  if (result == 0)
    make(event, 'e');
  return cuda(result);
}
cudaError_t RecordingCalls::eventDestroy(cudaEvent_t event) {
  return cuda(call("cudaEventDestroy", event));
}
cudaError_t RecordingCalls::eventRecord(cudaEvent_t event, cudaStream_t stream) {
  int result = call("cudaEventRecord", event, stream);
  if (result == 0)
    streams.record(event, stream);
  std::lock_guard lock(mutex);
  recordedNs[event] = nowNs;
  return cuda(result);
}
cudaError_t RecordingCalls::eventSynchronize(cudaEvent_t event) {
  int result = call("cudaEventSynchronize", event);
  return result ? cuda(result) : synchronize(event);
}
cudaError_t RecordingCalls::eventElapsedTime(float *milliseconds, cudaEvent_t begin,
                                             cudaEvent_t end) {
  int result = call("cudaEventElapsedTime", begin, end);
  std::lock_guard lock(mutex);
  *milliseconds = static_cast<float>(recordedNs[end] - recordedNs[begin]) / 1e6f;
  return cuda(result);
}
cudaError_t RecordingCalls::streamWriteValue32(cudaStream_t stream, uint32_t *word,
                                               uint32_t value) {
  int result = call("cuStreamWriteValue32", stream, word, int64_t(value));
  if (result == 0)
    streams.run(stream, [=, this] {
      if (std::lock_guard lock(mutex); !hung)
        std::atomic_ref(*word).store(value);
    });
  return cuda(result);
}
cudaError_t RecordingCalls::streamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  int result = call("cudaStreamBeginCapture", stream, int64_t(mode));
  if (result != 0)
    return cuda(result);
  streams.begin(stream);
  if (stream == torchStream)
    operators.emplace([this](SimulatedStreams::Work work) { streams.run(torchStream, work); });
  return cudaSuccess;
}
cudaError_t RecordingCalls::streamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  operators.reset();
  std::shared_ptr<SimulatedGraph> captured;
  cudaError_t ended = streams.end(stream, &captured);
  int result = call("cudaStreamEndCapture", stream);
  if (result == 0)
    result = ended;
  if (result == 0) {
    make(graph, 'g');
    graphs[*graph] = captured;
  }
  return cuda(result);
}
cudaError_t RecordingCalls::graphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                             unsigned long long flags) {
  int result = call("cudaGraphInstantiate", graph, int64_t(flags));
  if (result == 0) {
    make(exec, 'x');
    graphs[*exec] = graphs[graph];
  }
  return cuda(result);
}
cudaError_t RecordingCalls::graphDestroy(cudaGraph_t graph) {
  return cuda(call("cudaGraphDestroy", graph));
}
cudaError_t RecordingCalls::graphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  int result = call("cudaGraphLaunch", exec, stream);
  if (result == 0)
    streams.run(stream, [graph = graphs[exec]] { graph->launch(); });
  return cuda(result);
}
cudaError_t RecordingCalls::graphExecDestroy(cudaGraphExec_t exec) {
  return cuda(call("cudaGraphExecDestroy", exec));
}
cudaError_t RecordingCalls::launchStartTimer(unsigned timer, cudaStream_t stream) {
  return cuda(call("startTimer", int64_t(timer), stream));
}
cudaError_t RecordingCalls::launchAwaitTimer(unsigned timer, uint64_t nanoseconds,
                                             cudaStream_t stream) {
  return cuda(call("awaitTimer", int64_t(timer), int64_t(nanoseconds), stream));
}
cudaError_t RecordingCalls::launchDelay(uint64_t nanoseconds, cudaStream_t stream) {
  int result = call("delay", int64_t(nanoseconds), stream);
  std::lock_guard lock(mutex);
  nowNs += static_cast<int64_t>(nanoseconds);
  return cuda(result);
}

std::string RecordingCalls::text(float number) {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%g", double(number));
  return digits;
}

template <typename Kernel, typename... Arguments>
cudaError_t RecordingCalls::kernel(const std::string &name, const Kernel &checked,
                                   const Arguments &...arguments) {
  cudaError_t result = cuda(call(name, arguments...));
  return result == cudaSuccess ? checkArguments(checked) : result;
}
template <typename Kernel, typename... Arguments>
cudaError_t RecordingCalls::effective(cudaStream_t stream, const std::string &name,
                                      const Kernel &wanted, const Arguments &...arguments) {
  cudaError_t result = kernel(name, wanted, arguments..., stream);
  if (result == cudaSuccess)
    streams.run(stream, [wanted] { runOnHost(wanted); });
  return result;
}
cudaError_t RecordingCalls::launchKernel(const OptimizerUpdateArguments &a, cudaStream_t stream) {
  return effective(stream, "optimizerUpdate", a, int64_t(a.kind), a.elements, a.parameters,
                   a.gradients, int64_t(a.gradientDtype), a.state[0], a.state[1], a.gathered,
                   int64_t(a.gatheredDtype), a.scalars, a.clipFactor);
}
cudaError_t RecordingCalls::launchKernel(const PartialNormArguments &a, cudaStream_t stream) {
  return effective(stream, "partialNorm", a, a.gradients, int64_t(a.dtype), a.elements, a.partials,
                   int64_t(a.type));
}
cudaError_t RecordingCalls::launchKernel(const JoinPartialsArguments &a, cudaStream_t stream) {
  return effective(stream, "joinPartials", a, a.partials, a.count, a.total, int64_t(a.type));
}
cudaError_t RecordingCalls::launchKernel(const ClipFactorArguments &a, cudaStream_t stream) {
  return effective(stream, "clipFactor", a, a.total, a.maxNorm, a.clipFactor, a.norm,
                   int64_t(a.type));
}
cudaError_t RecordingCalls::launchKernel(const AverageArguments &a, cudaStream_t stream) {
  return effective(stream, "average", a, a.average, int64_t(a.averageDtype), a.parameters,
                   int64_t(a.dtype), a.scalars, a.elements);
}
cudaError_t RecordingCalls::launchKernel(const AccumulateArguments &a, cudaStream_t stream) {
  return effective(stream, "accumulate", a, a.to, int64_t(a.toDtype), a.toScale, a.from,
                   int64_t(a.fromDtype), a.fromScale, a.elements);
}

//===----------------------------------------------------------------------===//
// Generated kernels
//===----------------------------------------------------------------------===//

cudaError_t RecordingCalls::libraryLoadData(cudaLibrary_t *library, const char *ptx,
                                            std::string *log) {
  int result = call("cudaLibraryLoadData");
  if (result != 0) {
    *log = "ptxas application ptx input, line 1; fatal\nptxas fatal";
    return cuda(result);
  }
  make(library, 'l');
  libraries[*library] = ptx;
  return cudaSuccess;
}
cudaError_t RecordingCalls::libraryUnload(cudaLibrary_t library) {
  libraries.erase(library);
  return cuda(call("cudaLibraryUnload", library));
}
cudaError_t RecordingCalls::libraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library,
                                             const char *name) {
  int result = call("cudaLibraryGetKernel", library, std::string(name));
  if (result != 0)
    return cuda(result);
  if (libraries.at(library).find(".entry " + std::string(name) + "(") == std::string::npos)
    return cudaErrorSymbolNotFound;
  for (const fsdp_plan *owner = plan; owner; owner = owner->next)
    for (uint32_t i = 0; i < owner->num_kernels; ++i)
      if (const fsdp_kernel &known = owner->kernels[i];
          std::string(owner->strings + known.code) == name) {
        make(kernel, 'k');
        generated[*kernel] = {owner->kernel_functions[i * FSDP_NUM_KERNEL_LEVELS + kernelLevel()],
                              known.num_inputs + known.num_outputs, known.gpu_blocks,
                              known.gpu_threads, known.units};
        return cudaSuccess;
      }
  return cudaErrorSymbolNotFound;
}
cudaError_t RecordingCalls::launchKernel(cudaKernel_t kernel, unsigned blocks, unsigned threads,
                                         void **arguments, cudaStream_t stream) {
  const Generated launched = generated.at(kernel);
  std::vector<void *> tensors;
  std::string places;
  for (unsigned i = 0; i < launched.tensors; ++i) {
    tensors.push_back(*static_cast<void **>(arguments[i]));
    std::lock_guard lock(mutex);
    places += (i ? " " : "") + text(tensors.back());
  }
  int result = call("cudaLaunchKernel", kernel, int64_t(blocks), int64_t(threads), places, stream);
  if (result == 0 && (blocks != launched.blocks || threads != launched.threads))
    result = cudaErrorInvalidConfiguration;
  if (result == 0)
    streams.run(stream, [=] { launched.function(tensors.data(), 0, launched.units); });
  return cuda(result);
}

//===----------------------------------------------------------------------===//
// torch
//===----------------------------------------------------------------------===//

Status RecordingCalls::initializeTorch(int device) {
  return call("initializeTorch", int64_t(device)) == 0 ? Status() : Status::error("no torch");
}
Status RecordingCalls::setTorchStream(int, cudaStream_t stream) {
  int result = call("setTorchStream", stream);
  if (result == 0)
    streams.setTorchStream(torchStream = stream);
  return result == 0 ? Status() : Status::error("no torch stream");
}
void RecordingCalls::installTorchPlacement() { installPlacementAllocator(); }
void RecordingCalls::releaseTorchMemory() { call("releaseTorchMemory"); }
void RecordingCalls::beginTorchDraw(int, const TorchDraw &wanted) {
  draw.emplace(wanted.seed);
  if (streams.isCapturing(torchStream))
    streams.run(torchStream,
                [this, word = wanted.seedWord] { draw.emplace(static_cast<uint64_t>(*word)); });
}
void RecordingCalls::endTorchDraw(int) {
  draw.reset();
  if (streams.isCapturing(torchStream))
    streams.run(torchStream, [this] { draw.reset(); });
}
