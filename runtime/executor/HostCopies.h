//===- HostCopies.h - Copies between host and device -----------*- C++ -*-===//
//
// What the plan keeps on the host, between updates or until they come, lies in memory of the host
// that the device copies from and to; each direction has a stream. A start makes its stream wait
// for what the compute stream has been given so far, as a collective's does.
//
// Belongs to the thread that runs the step.
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
  /// state, or null. `isPinned`: the device reads and writes it by itself.
  HostCopies(const PlanView &view, Device &device, Stream &compute, std::byte *arena,
             std::byte *shared, bool isPinned)
      : view(view), device(device), compute(compute), arena(arena), host(shared),
        isPinned(isPinned) {}

  /// Allocates the host's arena, zeroed, unless it is shared, and makes the streams; nothing where
  /// the plan keeps nothing on the host. Errors name the bytes.
  Status prepare();

  /// Why steps with these copies cannot be captured; "" if they can.
  std::string captureObstacle() const;

  /// The host's arena, or null.
  std::byte *hostMemory() const { return host; }

  /// Starts a fetch or a store; records `done` behind it.
  void start(const fsdp_entry &entry, Event &done);

  /// The same of gradients and activations that wait on the host.
  void copyValue(const fsdp_entry &entry, Event &done);

  /// Starts copying this rank's shard from the host to `place`, from where it is gathered; records
  /// `done` behind it.
  void fetchShard(const fsdp_entry &gather, std::byte *place, Event &done);

  /// Writes what is gathered of parameters on the host in another dtype than theirs.
  void writeGatherCopies();

  /// Blocks until everything started has run; the first error.
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
  std::unique_ptr<Event> issued;                         // by compute, when a copy starts
  std::unique_ptr<Stream> fetches, stores;               // last: workers end before what they use
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_HOSTCOPIES_H
