//===- CudaDevice.h - Streams, events and memory of a GPU -------*- C++ -*-===//
//
// One per rank. Work given to a stream runs at once on the calling thread, which must be the one
// that opened the device, and enqueues there; nothing synchronizes the device. The compute stream
// is torch's current stream on that thread for as long as it lives, so that operators run on it.
// Streams other than compute have the highest priority: a collective's kernel shall not wait behind
// a queue of compute kernels.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_CUDADEVICE_H
#define FSDP_RUNTIME_CUDA_CUDADEVICE_H

#include "cuda/CudaCalls.h"
#include "device/Device.h"
#include "executor/OperatorRuntime.h"

namespace fsdp::rt {

struct CudaDeviceOptions {
  int ordinal = 0;
  /// Events note when they complete, for traces; costs a little at each record.
  bool timedEvents = false;
};

/// Set while a device captures: errors are the capture's then, and streams stay as they were.
struct CudaCapture {
  bool active = false;
  Status error;
};

class CudaStream : public Stream {
public:
  ~CudaStream() override;
  CudaStream(const CudaStream &) = delete;
  CudaStream &operator=(const CudaStream &) = delete;

  /// Runs the work now, on the calling thread.
  void enqueue(Work work) override;
  void record(Event &event) override;
  Status wait(Event &event) override;
  Status synchronize() override;
  void copy(void *to, const void *from, size_t bytes) override;
  void zero(void *to, size_t bytes) override;
  Status mark(ProgressWord &word, uint32_t value) override;
  Status delay(std::chrono::nanoseconds duration) override;

  cudaStream_t native() const { return stream; }
  const Status &error() const {
    return firstError.ok() && capture.active ? capture.error : firstError;
  }
  /// Notes the result of a call on this stream; returns the stream's first error.
  const Status &note(Status status);

protected:
  friend class CudaDevice;
  CudaStream(CudaCalls &calls, CudaCapture &capture, int priority);

  CudaCalls &calls;

private:
  const Status &note(cudaError_t error, const char *call);

  CudaCapture &capture; // of the device
  cudaStream_t stream = nullptr;
  Status firstError;
};

class CudaEvent final : public Event {
public:
  ~CudaEvent() override;
  Status synchronize() override;
  /// The device has timed events.
  Result<double> millisecondsSince(const Event &begin) const override;

private:
  friend class CudaDevice;
  friend class CudaStream;
  CudaEvent(CudaCalls &calls, unsigned flags);

  CudaCalls &calls;
  cudaEvent_t event = nullptr;
  Status madeError;
  const CudaStream *recorded = nullptr; // null: complete
};

class CudaDevice final : public Device, public OperatorDevice {
public:
  /// The devices of this host, at least one.
  static Result<unsigned> count(CudaCalls &calls);
  /// What a device calls itself.
  static Result<std::string> nameOf(CudaCalls &calls, int ordinal);
  /// Opens the device for the calling thread. An error says what CUDA says of the machine, or how
  /// many devices there are.
  static Result<std::unique_ptr<CudaDevice>> open(CudaCalls &calls, CudaDeviceOptions options);

  std::unique_ptr<Stream> makeComputeStream() override;
  std::unique_ptr<Stream> makeStream(const char *name) override;
  std::unique_ptr<Event> makeEvent() override;
  Result<std::unique_ptr<Memory>> allocate(size_t bytes) override;
  Result<std::unique_ptr<Memory>> allocateHost(size_t bytes) override;
  std::unique_ptr<OperatorRuntime> makeOperatorRuntime() override;
  Result<std::unique_ptr<Graph>> capture(Stream &origin,
                                         const std::function<Status()> &issue) override;

  CudaCalls &cuda() const { return calls; }
  int ordinal() const { return options.ordinal; }
  c10::Device tensorDevice() const { return calls.torchDevice(options.ordinal); }
  /// Sets device memory to zero, and waits until it is.
  Status clear(void *memory, size_t bytes);

private:
  CudaDevice(CudaCalls &calls, CudaDeviceOptions options) : calls(calls), options(options) {}

  CudaCalls &calls;
  const CudaDeviceOptions options;
  CudaCapture captured;
  int leastPriority = 0, greatestPriority = 0; // numerically the greatest is the least
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_CUDADEVICE_H
