//===- StateCopies.cpp - Optimizer state between host and device -----------===//

#include "executor/StateCopies.h"
#include "executor/OptimizerUpdate.h"

using namespace fsdp::rt;

Status StateCopies::prepare() {
  if (view.tables().host_arena_bytes == 0)
    return {};
  if (!host) {
    auto memory = device.allocateHost(static_cast<size_t>(view.tables().host_arena_bytes));
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

void StateCopies::start(const fsdp_entry &entry, Event &done) {
  bool isFetch = entry.kind == FSDP_FETCH_STATE_START;
  Stream &stream = isFetch ? *fetches : *stores;
  compute.record(*issued);
  // The compute stream has no error of its own: a failed operator ends the step.
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

void StateCopies::fetchShard(const fsdp_entry &gather, std::byte *place, Event &done) {
  compute.record(*issued);
  (void)fetches->wait(*issued); // as in start()
  fetches->copy(place, host + gather.source, static_cast<size_t>(gather.bytes));
  fetches->record(done);
}

void StateCopies::writeGatherCopies() {
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

Status StateCopies::synchronize() {
  for (Stream *stream : {fetches.get(), stores.get()})
    if (stream)
      if (Status status = stream->synchronize(); !status.ok())
        return status;
  return {};
}
