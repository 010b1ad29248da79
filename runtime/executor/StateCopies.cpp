//===- StateCopies.cpp - Optimizer state between host and device -----------===//

#include "executor/StateCopies.h"

using namespace fsdp::rt;

Status StateCopies::prepare() {
  if (view.tables().host_arena_bytes == 0)
    return {};
  if (!host) {
    auto memory = device.allocateHost(static_cast<size_t>(view.tables().host_arena_bytes));
    if (!memory.ok())
      return Status::error("optimizer state on the host: " + memory.status().message());
    hostArena = std::move(*memory);
    host = hostArena->data();
  }
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
  const fsdp_group &group = view.groups()[entry.target];
  for (unsigned state = 0; state < view.numOptimizerStates(); ++state) {
    std::byte *place = arena + group.state[state];
    std::byte *hostPlace = host + group.host_state[state];
    stream.copy(isFetch ? place : hostPlace, isFetch ? hostPlace : place,
                static_cast<size_t>(entry.bytes));
  }
  stream.record(done);
}

Status StateCopies::synchronize() {
  for (Stream *stream : {fetches.get(), stores.get()})
    if (stream)
      if (Status status = stream->synchronize(); !status.ok())
        return status;
  return {};
}
