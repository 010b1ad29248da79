//===- HostCopies.cpp - Copies between host and device --------------------===//

#include "executor/HostCopies.h"
#include "executor/OptimizerUpdate.h"

#include <cstdlib>
#include <cstring>

using namespace fsdp::rt;

namespace {
class PageableMemory final : public Memory {
public:
  PageableMemory(std::byte *address, size_t bytes) : Memory(address, bytes) {}
  ~PageableMemory() override { std::free(data()); }
};
} // namespace

/// Allocates zeroed pageable memory, aligned as a device's.
static Result<std::unique_ptr<Memory>> allocatePageable(size_t bytes) {
  constexpr size_t kAlignment = 64;
  void *address =
      std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (!address)
    return Status::error(std::to_string(bytes) + " bytes could not be allocated");
  std::memset(address, 0, bytes);
  return std::unique_ptr<Memory>(
      std::make_unique<PageableMemory>(static_cast<std::byte *>(address), bytes));
}

std::string HostCopies::captureObstacle() const {
  return view.tables().host_arena_bytes > 0 && !isPinned
             ? "what lies on the host is not pinned (--pin-memory off)"
             : "";
}

Status HostCopies::prepare() {
  if (view.tables().host_arena_bytes == 0)
    return {};
  if (!host) {
    const auto bytes = static_cast<size_t>(view.tables().host_arena_bytes);
    auto memory = isPinned ? device.allocateHost(bytes) : allocatePageable(bytes);
    if (!memory.ok())
      return Status::error("what the plan keeps on the host: " + memory.status().message());
    hostArena = std::move(*memory);
    host = hostArena->data();
  }
  for (const fsdp_group &group : view.groups())
    copiesOf.push_back(view.hostCopiesOf(group));
  issued = device.makeEvent();
  fetches = device.makeStream("fsdp-fetch");
  stores = device.makeStream("fsdp-store");
  return {};
}

void HostCopies::start(const fsdp_entry &entry, Event &done) {
  bool isFetch = entry.kind == FSDP_FETCH_STATE_START;
  Stream &stream = isFetch ? *fetches : *stores;
  compute.record(*issued);
  // The compute stream itself cannot fail, since a failed operator ends the step.
  (void)stream.wait(*issued);
  for (const PlanView::HostCopy &copy : copiesOf[entry.target]) {
    std::byte *place = arena + copy.place, *hostPlace = host + copy.hostPlace;
    if (!isFetch)
      stream.copy(hostPlace, place, static_cast<size_t>(copy.bytes));
    else if (copy.isFetched)
      stream.copy(place, hostPlace, static_cast<size_t>(copy.bytes));
  }
  stream.record(done);
}

void HostCopies::copyValue(const fsdp_entry &entry, Event &done) {
  const bool isFetch = entry.kind == FSDP_FETCH_START;
  Stream &stream = isFetch ? *fetches : *stores;
  compute.record(*issued);
  (void)stream.wait(*issued); // as in start()
  if (isFetch)
    stream.copy(arena + entry.destination, host + entry.source, static_cast<size_t>(entry.bytes));
  else
    stream.copy(host + entry.destination, arena + entry.source, static_cast<size_t>(entry.bytes));
  stream.record(done);
}

void HostCopies::fetchInput(const fsdp_entry &gather, std::byte *place, Event &done) {
  compute.record(*issued);
  (void)fetches->wait(*issued); // as in start()
  fetches->copy(place, host + gather.source, static_cast<size_t>(gather.bytes));
  fetches->record(done);
}

void HostCopies::writeGatherCopies() {
  for (const fsdp_group &group : view.groups())
    if (view.areParametersOnHost(group) && view.hasGatherCopy(group))
      writeGatheredCopy({.dtype = static_cast<fsdp_dtype>(group.dtype),
                         .elements = group.shard_elements,
                         .parameters = host + group.host_shard,
                         .gradients = nullptr,
                         .state = {},
                         .pieces = {},
                         .gathered = host + group.host_gather_shard,
                         .gatheredDtype = static_cast<fsdp_dtype>(group.gather_dtype)});
}

Status HostCopies::synchronize() {
  for (Stream *stream : {fetches.get(), stores.get()})
    if (stream)
      if (Status status = stream->synchronize(); !status.ok())
        return status;
  return {};
}
