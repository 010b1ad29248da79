//===- Device.h - Streams, events and memory of a device ---------*- C++ -*-===//
//
// The narrow interface between the executor and a device. A stream is an in-order queue; work on
// different streams is ordered by events only. On a CPU each stream but compute has a worker thread
// (runtime/device/CpuDevice.h); the compute stream is the thread that runs the step. A CUDA device
// (runtime/cuda/CudaDevice.h) implements the same interface with CUDA streams and events.
//
// Nothing here allocates during steps: events and memory are made before the first step, and a
// stream's queue has a fixed capacity.
//
// Errors of a stream stay: calls that return nothing note the first one, later work is skipped, and
// wait() and synchronize() return it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_DEVICE_H
#define FSDP_RUNTIME_DEVICE_H

#include "Status.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace fsdp::rt {

/// A point in a stream: complete once everything enqueued before it has run. Reusable: recording it
/// again moves it.
class Event {
public:
  virtual ~Event() = default;
  /// Blocks the calling thread until the event is complete; the error of the recorded stream, if it
  /// failed.
  virtual Status synchronize() = 0;
  /// Time from when `begin` completed to when this one did; both have completed. An error where
  /// the device's events carry no times.
  virtual Result<double> millisecondsSince(const Event &begin) const {
    return Status::error("events of this device carry no times");
  }
};

/// A counter that a stream writes and any thread may read at any time.
using ProgressWord = std::atomic<uint32_t>;

/// Memory of a device, or host memory that the device can access; freed with the object.
class Memory {
public:
  virtual ~Memory() = default;
  std::byte *data() const { return address; }
  size_t size() const { return bytes; }

protected:
  Memory(std::byte *address, size_t bytes) : address(address), bytes(bytes) {}

private:
  std::byte *address;
  size_t bytes;
};

/// Work for a stream, without allocation: `run(context, index)` is called on the stream's thread;
/// on CUDA at once on the calling thread, to enqueue operations on the stream.
struct Work {
  Status (*run)(void *context, uint32_t index) = nullptr;
  void *context = nullptr;
  uint32_t index = 0;
  /// The enqueuing thread will soon wait for the work, so no worker is woken.
  bool deferred = false;
};

class Stream {
public:
  virtual ~Stream() = default;
  /// Enqueues work; blocks only while the queue is full.
  virtual void enqueue(Work work) = 0;
  /// Records `event` after everything enqueued so far.
  virtual void record(Event &event) = 0;
  /// Work enqueued from now on runs after `event`. On the compute stream of a CPU this blocks the
  /// calling thread. Returns the error of the recorded stream, if it failed.
  virtual Status wait(Event &event) = 0;
  /// Blocks until everything enqueued has run; the first error of the stream, if any.
  virtual Status synchronize() = 0;

  /// Copies bytes between any two places of device memory and Device::allocateHost memory; both
  /// stay untouched until the copy has run. Other host memory is allowed, and may block the caller.
  virtual void copy(void *to, const void *from, size_t bytes) = 0;
  /// Sets bytes to zero.
  virtual void zero(void *to, size_t bytes) = 0;
  /// Writes `value` to `word`, which lies in Device::allocateHost memory. An error if the device
  /// cannot do that: the stream goes on without the write, but a capture in progress cannot become
  /// a graph.
  virtual Status mark(ProgressWord &word, uint32_t value) = 0;
  /// The stream waits for `duration` before it runs work enqueued from now on. An error if the
  /// device cannot do that.
  virtual Status delay(std::chrono::nanoseconds duration) {
    return Status::error("streams of this device cannot be delayed");
  }
};

/// Work that was captured once and is replayed as a whole.
class Graph {
public:
  virtual ~Graph() = default;
  /// Enqueues all of it on `stream`.
  virtual Status launch(Stream &stream) = 0;
};

class Device {
public:
  virtual ~Device() = default;
  virtual std::unique_ptr<Stream> makeComputeStream() = 0;
  virtual std::unique_ptr<Stream> makeStream(const char *name) = 0;
  virtual std::unique_ptr<Event> makeEvent() = 0;

  /// Zeroed memory of the device, 64-byte aligned. Errors name the bytes.
  virtual Result<std::unique_ptr<Memory>> allocate(size_t bytes) = 0;
  /// Zeroed memory of the host that the device reads and writes asynchronously, 64-byte aligned.
  virtual Result<std::unique_ptr<Memory>> allocateHost(size_t bytes) = 0;

  /// Captures, without running it, the work that `issue` enqueues on `origin` and on streams that
  /// it orders after and before `origin` by events. The calling thread must enqueue nothing else
  /// meanwhile. After an error the streams are as before.
  virtual Result<std::unique_ptr<Graph>> capture(Stream &origin,
                                                 const std::function<Status()> &issue) = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_DEVICE_H
