//===- CollectiveLanes.h - A step's collectives on their streams -*- C++ -*-===//
//
// Each lane of the communicator that the plan uses has a stream. A start makes the lane's stream
// wait for all work that the compute stream has been given so far, issues the collective there and
// records the event of its handle. The plan says where the compute stream waits for that event.
// Before a gather from the host, the shard is copied from the host on a stream of its own.
// Collectives of the model itself run on the compute stream.
//
// Used by the thread that runs the step.
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
  /// Passes the streams to the communicator; prepare() does so, too.
  void useStreams();

  /// Starts the collectives of `count` entries from `first`, which the plan coalesces: one launch
  /// if the communicator is asynchronous, else one after another. `awaited`: the compute stream
  /// waits for them at once.
  void start(uint32_t first, uint32_t count, bool awaited);
  /// Runs a collective of the model on the compute stream.
  Status runOfModel(uint32_t entry);
  /// Makes the compute stream wait for a handle. Returns the error of its collective, if it is
  /// known.
  Status wait(uint32_t handle);
  /// The event of a handle, for work that is started elsewhere.
  Event &eventOf(uint32_t handle) { return *events[handle]; }
  /// Blocks until all streams but compute have run their work. Returns the first error.
  Status synchronize();
  /// Reports launches from now on to `next`, until it is null.
  void trace(EntryTracer *next) { tracer = next; }

private:
  struct Lane {
    Stream *stream = nullptr; // null: the plan has no collective on this lane
    bool asynchronous = false;
  };

  static Status run(void *lanes, uint32_t entry);
  /// Divisions of a reduction that the rank itself does, before or after it.
  static Status divideBefore(void *lanes, uint32_t entry);
  static Status divideAfter(void *lanes, uint32_t entry);
  Status collect(const fsdp_entry &entry);
  /// This rank's part of a gather's result.
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

  std::unique_ptr<Event> issued;              // recorded on compute when a collective starts
  std::vector<std::unique_ptr<Event>> events; // by handle
  // By handle; null if it is not a gather from the host.
  std::vector<std::unique_ptr<Event>> fetched;
  std::vector<WorkerChoice> choices;          // by handle
  EntryTracer *tracer = nullptr;
  std::vector<Lane> lanes; // by number
  /// By fsdp_stream: collectives of several communicators on one stream run in order. Last member:
  /// workers end before the members that they use.
  std::unique_ptr<Stream> streams[FSDP_REPLICATE + 1];
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COLLECTIVELANES_H
