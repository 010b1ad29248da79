//===- CollectiveStreams.h - Collectives as the executor issues them -*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_COLLECTIVESTREAMS_H
#define FSDP_TOOLS_PROFILE_COLLECTIVESTREAMS_H

#include "comm/Communicator.h"
#include "device/CpuDevice.h"

#include <chrono>
#include <memory>

namespace fsdp::profile {

/// Gathers and reductions of f32 on their lanes' streams. Whole groups have `bytes` bytes, a
/// multiple of 4 x ranks; places are arena offsets.
class CollectiveStreams {
public:
  using Clock = std::chrono::steady_clock;

  CollectiveStreams(rt::Communicator &communicator, std::byte *arena)
      : communicator(communicator), arena(arena), compute(device.makeComputeStream()),
        gather(device.makeStream("fsdp-gather")), reduce(device.makeStream("fsdp-reduce")),
        gathered(device.makeEvent()), reduced(device.makeEvent()) {}

  /// Issues a gather. `deferred`: the caller waits at once, no worker is woken.
  void startGather(size_t place, size_t bytes, bool deferred) {
    gatherPlace = place;
    gatherBytes = bytes;
    gather->enqueue({runGather, this, 0, deferred});
    gather->record(*gathered);
  }
  void startReduction(size_t place, size_t bytes, bool deferred) {
    reducePlace = place;
    reduceBytes = bytes;
    reduce->enqueue({runReduction, this, 0, deferred});
    reduce->record(*reduced);
  }
  rt::Status waitForGather() { return compute->wait(*gathered); }
  rt::Status waitForReduction() { return compute->wait(*reduced); }

  /// All ranks begin together.
  rt::Status meet() { return communicator.barrier(rt::kControlLane); }

private:
  static rt::Status runGather(void *context, uint32_t) {
    auto &self = *static_cast<CollectiveStreams *>(context);
    size_t share = self.gatherBytes / self.communicator.size();
    std::byte *output = self.arena + self.gatherPlace;
    // As in a step: the shard lies beside the gathered parameters.
    return self.communicator.allGather(rt::kGatherLane, output + self.gatherBytes, output, share);
  }
  static rt::Status runReduction(void *context, uint32_t) {
    auto &self = *static_cast<CollectiveStreams *>(context);
    size_t count = self.reduceBytes / self.communicator.size() / sizeof(float);
    std::byte *input = self.arena + self.reducePlace;
    return self.communicator.reduceScatter(rt::kReduceLane, input, input + self.reduceBytes, count,
                                           FSDP_F32, rt::ReduceOp::Average);
  }

  rt::Communicator &communicator;
  std::byte *const arena;
  size_t gatherPlace = 0, gatherBytes = 0, reducePlace = 0, reduceBytes = 0;
  rt::CpuDevice device;
  std::unique_ptr<rt::Stream> compute, gather, reduce;
  std::unique_ptr<rt::Event> gathered, reduced;
};

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_COLLECTIVESTREAMS_H
