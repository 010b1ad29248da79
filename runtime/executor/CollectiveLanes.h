//===- CollectiveLanes.h - A step's collectives on their streams -*- C++ -*-===//
//
// Each lane of the communicator that the plan uses has a stream. A start makes the lane's stream
// wait for what the compute stream has been given so far, issues the collective there and records
// the event of its handle; the compute stream waits for that event where the plan says. Before a
// gather from the host the shard is copied to its place there, on a stream of its own.
//
// Belongs to the thread that runs the step.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_COLLECTIVELANES_H
#define FSDP_RUNTIME_COLLECTIVELANES_H

#include "comm/Communicator.h"
#include "device/Device.h"
#include "executor/EntryTracer.h"
#include "executor/HostCopies.h"
#include "executor/WorkerChoice.h"
#include "plan/PlanView.h"

#include <vector>

namespace fsdp::rt {

class CollectiveLanes {
public:
  /// All arguments outlive the object.
  CollectiveLanes(const PlanView &view, Device &device, Communicator &communicator, Stream &compute,
                  HostCopies &hostCopies, std::byte *arena)
      : view(view), device(device), communicator(communicator), compute(compute),
        hostCopies(hostCopies), arena(arena) {}

  /// Makes the streams and events.
  void prepare();
  /// Tells the communicator of the streams; prepare() does so, too.
  void useStreams();

  /// Starts the collectives of `count` entries from `first`, which the plan coalesces: one launch
  /// where the communicator is asynchronous, else one after another. `awaited`: nothing is to run
  /// before it is waited for.
  void start(uint32_t first, uint32_t count, bool awaited);
  /// The compute stream waits for a handle; the error of its collective, if it is known.
  Status wait(uint32_t handle);
  /// Of a handle, for what is started elsewhere.
  Event &eventOf(uint32_t handle) { return *events[handle]; }
  /// Blocks until all streams but compute have run what they were given; the first error.
  Status synchronize();
  /// Tells `tracer` of the launches that are started from now on, until it is null.
  void trace(EntryTracer *next) { tracer = next; }

private:
  struct Lane {
    Stream *stream = nullptr; // null: the plan has no collective here
    bool asynchronous = false;
  };

  static Status run(void *lanes, uint32_t entry);
  /// What a rank divides of a reduction by itself.
  static Status divideBefore(void *lanes, uint32_t entry);
  static Status divideAfter(void *lanes, uint32_t entry);
  Status collect(const fsdp_entry &entry);
  /// This rank's part of what a gather yields.
  std::byte *ownPart(const fsdp_entry &gather) const;
  Status describe(const fsdp_entry &entry, Status status) const;
  static Status beginGroup(void *lanes, uint32_t lane);
  static Status endGroup(void *lanes, uint32_t lane);
  static Status traceBegin(void *lanes, uint32_t entry);
  static Status traceEnd(void *lanes, uint32_t entry);

  const PlanView &view;
  Device &device;
  Communicator &communicator;
  Stream &compute;
  HostCopies &hostCopies;
  std::byte *const arena;

  std::unique_ptr<Event> issued;              // by compute, when a collective starts
  std::vector<std::unique_ptr<Event>> events; // by handle
  std::vector<std::unique_ptr<Event>> fetched; // by handle; null: it is no gather from the host
  std::vector<WorkerChoice> choices;          // by handle
  EntryTracer *tracer = nullptr;
  std::vector<Lane> lanes; // by number
  /// By fsdp_stream: what communicators issue on one stream runs in order. Last: workers end before
  /// what they use.
  std::unique_ptr<Stream> streams[FSDP_REPLICATE + 1];
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COLLECTIVELANES_H
