//===- CpuDevice.h - Streams of a CPU ----------------------------*- C++ -*-===//
//
// The compute stream is the thread that makes it: its work runs at once. Every other stream is a
// ring of fixed capacity with a worker thread, so that collectives really run beside computation.
//
// A wait on the compute stream may execute other streams: if no thread executes the awaited stream,
// the waiting thread runs its work, in order, up to the event. This saves two context switches per
// collective and changes nothing else, since at most one thread executes a stream at any time.
//
// Threads: enqueue, record, wait and synchronize of all streams of a device belong to the thread
// that runs the step. Work runs on that thread or on the stream's worker.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CPUDEVICE_H
#define FSDP_RUNTIME_CPUDEVICE_H

#include "device/Device.h"

namespace fsdp::rt {

struct CpuDeviceOptions {
  /// Items (work and waits) that a stream holds before enqueue blocks.
  size_t queueCapacity = 256;
};

class CpuDevice final : public Device {
public:
  explicit CpuDevice(CpuDeviceOptions options = {}) : options(options) {}

  std::unique_ptr<Stream> makeComputeStream() override;
  /// A stream with a worker thread of this name. Its destructor lets the running work end and skips
  /// what is still queued.
  std::unique_ptr<Stream> makeStream(const char *name) override;
  /// An event that is complete until it is first recorded.
  std::unique_ptr<Event> makeEvent() override;
  /// The two kinds of memory are the same.
  Result<std::unique_ptr<Memory>> allocate(size_t bytes) override;
  Result<std::unique_ptr<Memory>> allocateHost(size_t bytes) override { return allocate(bytes); }
  /// An error: operators run on the calling thread, there is nothing to capture.
  Result<std::unique_ptr<Graph>> capture(Stream &origin,
                                         const std::function<Status()> &issue) override;

private:
  CpuDeviceOptions options;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CPUDEVICE_H
