//===- CudaDevice.h - Streams, events and memory of a GPU -------*- C++ -*-===//
//
// One device per rank. Work given to a stream runs at once on the calling thread, which must be the
// thread that opened the device, and enqueues operations on the CUDA stream; nothing synchronizes
// the device. The compute stream is torch's current stream on that thread for as long as it lives,
// so that operators run on it. Streams other than compute have the highest priority, so that a
// collective's kernel does not queue behind compute kernels.
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
  /// Events note the time at which they complete, for traces; this costs a little at each record.
  bool timedEvents = false;
};

/// Set while a device captures: errors then belong to the capture, and streams keep their state.
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
  /// The number of devices of this host, at least 1.
  static Result<unsigned> count(CudaCalls &calls);
  /// The name of a device.
  static Result<std::string> nameOf(CudaCalls &calls, int ordinal);
  /// Opens the device for the calling thread. An error has CUDA's message, or the number of
  /// devices.
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
  int leastPriority = 0, greatestPriority = 0; // the greatest priority is numerically the least
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_CUDADEVICE_H
