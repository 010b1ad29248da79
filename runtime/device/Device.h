//===- Device.h - Streams, events and memory of a device ---------*- C++ -*-===//
//
// The narrow interface between the executor and a device. A stream is an in-order queue; work on
// different streams is ordered by events only. On a CPU each stream but compute has a worker thread
// (runtime/device/CpuDevice.h); the compute stream is the thread that runs the step. A CUDA device
// implements the same interface with CUDA streams and events.
//
// Nothing here allocates once the device is made: events are made before the first step, and a
// stream's queue has a fixed capacity.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_DEVICE_H
#define FSDP_RUNTIME_DEVICE_H

#include "Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fsdp::rt {

/// A point in a stream: complete once everything enqueued before it has run. Reusable: recording it
/// again moves it.
class Event {
public:
  virtual ~Event() = default;
};

/// Work for a stream, without allocation: `run(context, index)` on the stream's thread. An error
/// stops the stream: later work is skipped, and synchronize() returns the first error.
struct Work {
  Status (*run)(void *context, uint32_t index) = nullptr;
  void *context = nullptr;
  uint32_t index = 0;
  /// The enqueuing thread will soon wait for the work: do not wake anybody for it.
  bool deferred = false;
};

class Stream {
public:
  virtual ~Stream() = default;
  /// Enqueues work; blocks only while the queue is full.
  virtual void enqueue(Work work) = 0;
  /// Records `event` after everything enqueued so far.
  virtual void record(Event &event) = 0;
  /// What is enqueued from now on runs after `event`. On the compute stream of a CPU this blocks
  /// the calling thread. Returns the error of the recorded stream, if it failed.
  virtual Status wait(Event &event) = 0;
  /// Blocks until everything enqueued has run; the first error of the stream, if any.
  virtual Status synchronize() = 0;
};

class Device {
public:
  virtual ~Device() = default;
  virtual std::unique_ptr<Stream> makeComputeStream() = 0;
  virtual std::unique_ptr<Stream> makeStream(const char *name) = 0;
  virtual std::unique_ptr<Event> makeEvent() = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_DEVICE_H
