//===- HostCopies.h - Copies between host and device -----------*- C++ -*-===//
//
// State and tensors that the plan keeps on the host are in host memory that the device copies from
// and to; each direction has a stream. A start makes its stream wait for all work that the compute
// stream has been given so far, as the start of a collective does.
//
// Used by the thread that runs the step.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_HOSTCOPIES_H
#define FSDP_RUNTIME_HOSTCOPIES_H

#include "device/Device.h"
#include "plan/PlanView.h"

namespace fsdp::rt {

class HostCopies {
public:
  /// All arguments outlive the object. `shared`: the host's arena of another executor with the same
  /// state, or null. `isPinned`: the memory is pinned, so that the device copies it asynchronously.
  HostCopies(const PlanView &view, Device &device, Stream &compute, std::byte *arena,
             std::byte *shared, bool isPinned)
      : view(view), device(device), compute(compute), arena(arena), host(shared),
        isPinned(isPinned) {}

  /// Allocates the host's arena, zeroed, unless it is shared, and makes the streams. Does nothing
  /// if the plan keeps nothing on the host. Errors name the bytes.
  Status prepare();

  /// Why steps with these copies cannot be captured; "" if they can.
  std::string captureObstacle() const;

  /// The host's arena, or null.
  std::byte *hostMemory() const { return host; }

  /// Starts a fetch or a store, and records `done` after it.
  void start(const fsdp_entry &entry, Event &done);

  /// The same for gradients, activations and chunks that wait on the host.
  void copyValue(const fsdp_entry &entry, Event &done);

  /// Starts the copy of a gather's input from the host to `place`, where the gather reads it, and
  /// records `done` after it.
  void fetchInput(const fsdp_entry &gather, std::byte *place, Event &done);

  /// Writes the copies for gathers of parameters on the host, if these are gathered in another
  /// dtype.
  void writeGatherCopies();

  /// Blocks until all started copies have run. Returns the first error.
  Status synchronize();

private:
  const PlanView &view;
  Device &device;
  Stream &compute;
  std::byte *const arena;
  std::unique_ptr<Memory> hostArena; // null: shared
  std::byte *host;
  const bool isPinned;
  std::vector<std::vector<PlanView::HostCopy>> copiesOf; // by group
  std::unique_ptr<Event> issued;                         // recorded on compute when a copy starts
  // Last members: workers end before the members that they use.
  std::unique_ptr<Stream> fetches, stores;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_HOSTCOPIES_H
