//===- CudaDevice.cpp - Streams, events and memory of a GPU ---------------===//

#include "cuda/CudaDevice.h"
#include "cuda/CudaOperatorRuntime.h"

#include <algorithm>
#include <cstring>

using namespace fsdp::rt;

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

CudaStream::CudaStream(CudaCalls &calls, CudaCapture &capture, int priority)
    : calls(calls), capture(capture) {
  note(calls.streamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
       "cudaStreamCreateWithPriority");
}

CudaStream::~CudaStream() {
  // Enqueued work still runs; errors cannot be reported any more.
  if (stream)
    (void)calls.streamDestroy(stream);
}

const Status &CudaStream::note(Status status) {
  Status &first = capture.active ? capture.error : firstError;
  if (first.ok() && !status.ok())
    first = std::move(status);
  return error();
}

const Status &CudaStream::note(cudaError_t result, const char *call) {
  return result == cudaSuccess ? error() : note(checkCuda(calls, result, call));
}

void CudaStream::enqueue(Work work) {
  if (!error().ok())
    return;
  try {
    note(work.run(work.context, work.index));
  } catch (const std::exception &exception) {
    note(Status::error(exception.what()));
  }
}

void CudaStream::record(Event &event) {
  auto &cudaEvent = static_cast<CudaEvent &>(event);
  cudaEvent.recorded = this;
  note(cudaEvent.madeError);
  if (error().ok())
    note(calls.eventRecord(cudaEvent.event, stream), "cudaEventRecord");
}

Status CudaStream::wait(Event &event) {
  const auto &cudaEvent = static_cast<const CudaEvent &>(event);
  if (!cudaEvent.recorded || cudaEvent.recorded == this) // a stream is ordered already
    return error();
  if (!cudaEvent.recorded->error().ok())
    return cudaEvent.recorded->error();
  if (error().ok())
    note(calls.streamWaitEvent(stream, cudaEvent.event, cudaEventWaitDefault),
         "cudaStreamWaitEvent");
  return error();
}

Status CudaStream::synchronize() {
  if (stream)
    note(calls.streamSynchronize(stream), "cudaStreamSynchronize");
  return error();
}

void CudaStream::copy(void *to, const void *from, size_t bytes) {
  if (bytes && error().ok())
    note(calls.memcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

void CudaStream::zero(void *to, size_t bytes) {
  if (bytes && error().ok())
    note(calls.memsetAsync(to, 0, bytes, stream), "cudaMemsetAsync");
}

Status CudaStream::mark(ProgressWord &word, uint32_t value) {
  static_assert(sizeof(ProgressWord) == sizeof(uint32_t) && ProgressWord::is_always_lock_free);
  if (!error().ok())
    return {}; // the stream reports its error at a wait
  cudaError_t result = calls.streamWriteValue32(stream, reinterpret_cast<uint32_t *>(&word), value);
  if (capture.active)
    note(result, "cuStreamWriteValue32");
  return result == cudaSuccess ? Status() : checkCuda(calls, result, "cuStreamWriteValue32");
}

Status CudaStream::delay(std::chrono::nanoseconds duration) {
  if (error().ok())
    note(calls.launchDelay(static_cast<uint64_t>(duration.count()), stream), "the kernel delay");
  return error();
}

namespace fsdp::rt {
/// A stream that is torch's current stream, on the thread that makes it, while it lives.
class CudaComputeStream final : public CudaStream {
public:
  CudaComputeStream(CudaCalls &calls, CudaCapture &capture, int device, int priority)
      : CudaStream(calls, capture, priority), device(device) {
    if (error().ok())
      note(calls.setTorchStream(device, native()));
  }
  ~CudaComputeStream() override { (void)calls.setTorchStream(device, nullptr).ok(); }

private:
  const int device;
};
} // namespace fsdp::rt

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

CudaEvent::CudaEvent(CudaCalls &calls, unsigned flags) : calls(calls) {
  madeError =
      checkCuda(calls, calls.eventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
}

CudaEvent::~CudaEvent() {
  if (event)
    (void)calls.eventDestroy(event);
}

Status CudaEvent::synchronize() {
  if (!recorded)
    return {};
  if (!recorded->error().ok())
    return recorded->error();
  return checkCuda(calls, calls.eventSynchronize(event), "cudaEventSynchronize");
}

Result<double> CudaEvent::millisecondsSince(const Event &begin) const {
  float milliseconds = 0;
  cudaEvent_t origin = static_cast<const CudaEvent &>(begin).event;
  Status status = checkCuda(calls, calls.eventElapsedTime(&milliseconds, origin, event),
                            "cudaEventElapsedTime");
  if (!status.ok())
    return status;
  return static_cast<double>(milliseconds);
}

//===----------------------------------------------------------------------===//
// Memory and graphs
//===----------------------------------------------------------------------===//

namespace {
class DeviceMemory final : public Memory {
public:
  DeviceMemory(CudaCalls &calls, void *address, size_t bytes)
      : Memory(static_cast<std::byte *>(address), bytes), calls(calls) {}
  ~DeviceMemory() override { (void)calls.free(data()); }

private:
  CudaCalls &calls;
};

class PinnedMemory final : public Memory {
public:
  PinnedMemory(CudaCalls &calls, void *address, size_t bytes)
      : Memory(static_cast<std::byte *>(address), bytes), calls(calls) {}
  ~PinnedMemory() override { (void)calls.freeHost(data()); }

private:
  CudaCalls &calls;
};

class CudaGraph final : public Graph {
public:
  CudaGraph(CudaCalls &calls, cudaGraphExec_t exec) : calls(calls), exec(exec) {}
  ~CudaGraph() override { (void)calls.graphExecDestroy(exec); }

  Status launch(Stream &stream) override {
    auto &cudaStream = static_cast<CudaStream &>(stream);
    if (!cudaStream.error().ok())
      return cudaStream.error();
    return cudaStream.note(
        checkCuda(calls, calls.graphLaunch(exec, cudaStream.native()), "cudaGraphLaunch"));
  }

private:
  CudaCalls &calls;
  cudaGraphExec_t exec;
};
} // namespace

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

Result<unsigned> CudaDevice::count(CudaCalls &calls) {
  int count = 0;
  if (cudaError_t error = calls.getDeviceCount(&count); error != cudaSuccess)
    return Status::error("no CUDA device can be used: " + calls.describe(error));
  if (count <= 0)
    return Status::error("there is no CUDA device on this host");
  return static_cast<unsigned>(count);
}

Result<std::string> CudaDevice::nameOf(CudaCalls &calls, int ordinal) {
  std::string name;
  if (Status status =
          checkCuda(calls, calls.getDeviceName(ordinal, &name),
                    "cudaGetDeviceProperties of CUDA device " + std::to_string(ordinal));
      !status.ok())
    return status;
  return name;
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(CudaCalls &calls, CudaDeviceOptions options) {
  Result<unsigned> devices = count(calls);
  if (!devices.ok())
    return devices.status();
  if (options.ordinal >= static_cast<int>(*devices))
    return Status::error("this rank needs CUDA device " + std::to_string(options.ordinal) +
                         ", but there are " + std::to_string(*devices) + " on this host");
  std::unique_ptr<CudaDevice> device(new CudaDevice(calls, options));
  std::string name = " of CUDA device " + std::to_string(options.ordinal);
  if (Status status = checkCuda(calls, calls.setDevice(options.ordinal), "cudaSetDevice" + name);
      !status.ok())
    return status;
  if (Status status = checkCuda(
          calls,
          calls.deviceGetStreamPriorityRange(&device->leastPriority, &device->greatestPriority),
          "cudaDeviceGetStreamPriorityRange" + name);
      !status.ok())
    return status;
  if (Status status = calls.initializeTorch(options.ordinal); !status.ok())
    return status;
  return device;
}

std::unique_ptr<Stream> CudaDevice::makeComputeStream() {
  return std::make_unique<CudaComputeStream>(calls, captured, options.ordinal, leastPriority);
}

std::unique_ptr<Stream> CudaDevice::makeStream(const char *) {
  return std::unique_ptr<Stream>(new CudaStream(calls, captured, greatestPriority));
}

std::unique_ptr<Event> CudaDevice::makeEvent() {
  unsigned flags = options.timedEvents ? cudaEventDefault : cudaEventDisableTiming;
  return std::unique_ptr<Event>(new CudaEvent(calls, flags));
}

Status CudaDevice::clear(void *memory, size_t bytes) {
  CudaStream stream(calls, captured, leastPriority);
  stream.zero(memory, bytes);
  return stream.synchronize();
}

Result<std::unique_ptr<Memory>> CudaDevice::allocate(size_t bytes) {
  void *address = nullptr;
  size_t atLeastOne = std::max<size_t>(bytes, 1);
  Status status = checkCuda(calls, calls.malloc(&address, atLeastOne),
                            "cudaMalloc of " + std::to_string(bytes) + " bytes");
  if (!status.ok())
    return status;
  auto memory = std::make_unique<DeviceMemory>(calls, address, bytes);
  if (Status cleared = clear(address, bytes); !cleared.ok())
    return cleared;
  return std::unique_ptr<Memory>(std::move(memory));
}

Result<std::unique_ptr<Memory>> CudaDevice::allocateHost(size_t bytes) {
  void *address = nullptr;
  size_t atLeastOne = std::max<size_t>(bytes, 1);
  Status status = checkCuda(
      calls, calls.hostAlloc(&address, atLeastOne, cudaHostAllocPortable | cudaHostAllocMapped),
      "cudaHostAlloc of " + std::to_string(bytes) + " bytes");
  if (!status.ok())
    return status;
  std::memset(address, 0, bytes);
  return std::unique_ptr<Memory>(std::make_unique<PinnedMemory>(calls, address, bytes));
}

std::unique_ptr<OperatorRuntime> CudaDevice::makeOperatorRuntime() {
  return std::make_unique<CudaOperatorRuntime>(*this);
}

Result<std::unique_ptr<Graph>> CudaDevice::capture(Stream &origin,
                                                   const std::function<Status()> &issue) {
  auto &stream = static_cast<CudaStream &>(origin);
  // Thread-local capture: other threads (NCCL's, the watchdog's) may call CUDA meanwhile.
  Status status =
      checkCuda(calls, calls.streamBeginCapture(stream.native(), cudaStreamCaptureModeThreadLocal),
                "cudaStreamBeginCapture");
  if (!status.ok())
    return status;
  Status issued;
  captured = {true, {}};
  try {
    issued = issue();
  } catch (const std::exception &error) {
    issued = Status::error(error.what());
  }
  captured.active = false;
  if (issued.ok())
    issued = captured.error;
  cudaGraph_t graph = nullptr;
  // Also after an error, since the stream must leave the capture.
  Status ended =
      checkCuda(calls, calls.streamEndCapture(stream.native(), &graph), "cudaStreamEndCapture");
  cudaGraphExec_t exec = nullptr;
  Status made;
  if (issued.ok() && ended.ok())
    // Without the flag all nodes have the priority of the stream that the graph is launched on, so
    // collectives would queue behind compute kernels.
    made = checkCuda(calls,
                     calls.graphInstantiate(&exec, graph, cudaGraphInstantiateFlagUseNodePriority),
                     "cudaGraphInstantiate");
  if (graph) {
    Status destroyed = checkCuda(calls, calls.graphDestroy(graph), "cudaGraphDestroy");
    if (made.ok())
      made = destroyed;
  }
  for (const Status &result : {issued, ended, made})
    if (!result.ok()) {
      if (exec)
        (void)calls.graphExecDestroy(exec);
      return result;
    }
  return std::unique_ptr<Graph>(std::make_unique<CudaGraph>(calls, exec));
}
