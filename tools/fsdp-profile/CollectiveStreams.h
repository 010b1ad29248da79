//===- CollectiveStreams.h - Collectives as the executor issues them -*- C++ -*-===//

#ifndef FSDP_TOOLS_PROFILE_COLLECTIVESTREAMS_H
#define FSDP_TOOLS_PROFILE_COLLECTIVESTREAMS_H

#include "comm/StandardLanes.h"
#include "executor/OperatorRuntime.h"

#include <memory>

namespace fsdp::profile {

/// Gathers and reductions of f32 on their lanes' streams. Each begins when the compute stream
/// reaches it. `bytes` is the size of a whole group, a multiple of 4 x ranks; `place` is an arena
/// offset.
class CollectiveStreams {
public:
  CollectiveStreams(rt::Device &device, rt::Communicator &communicator, std::byte *arena)
      : communicator(communicator), arena(arena), tensors(rt::makeOperatorRuntime(device)),
        issued(device.makeEvent()), gathered(device.makeEvent()), reduced(device.makeEvent()),
        compute(device.makeComputeStream()), gather(device.makeStream("fsdp-gather")),
        reduce(device.makeStream("fsdp-reduce")) {
    communicator.useStream(rt::kGatherLane, *gather);
    communicator.useStream(rt::kReduceLane, *reduce);
  }

  /// Starts a gather. `deferred`: the caller waits at once, so no worker thread is woken.
  void startGather(size_t place, size_t bytes, bool deferred) {
    gatherPlace = place;
    gatherBytes = bytes;
    start(*gather, *gathered, {runGather, this, 0, deferred});
  }
  void startReduction(size_t place, size_t bytes, bool deferred) {
    reducePlace = place;
    reduceBytes = bytes;
    start(*reduce, *reduced, {runReduction, this, 0, deferred});
  }
  /// Makes the compute stream wait; on a CPU the compute stream is the calling thread.
  rt::Status waitForGather() { return compute->wait(*gathered); }
  rt::Status waitForReduction() { return compute->wait(*reduced); }

  rt::Stream &getCompute() { return *compute; }
  bool onHost() const { return tensors->isHost(); }
  /// The device of the operands of work on the compute stream.
  c10::Device getTensorDevice() const { return tensors->tensorDevice(); }

private:
  void start(rt::Stream &lane, rt::Event &done, rt::Work work) {
    compute->record(*issued);
    // The compute stream cannot fail, so the result is ignored.
    (void)lane.wait(*issued);
    lane.enqueue(work);
    lane.record(done);
  }
  static rt::Status runGather(void *context, uint32_t) {
    auto &self = *static_cast<CollectiveStreams *>(context);
    size_t share = self.gatherBytes / self.communicator.size();
    std::byte *output = self.arena + self.gatherPlace;
    // As in a step, the shard is next to the gathered parameters.
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
  std::unique_ptr<rt::OperatorRuntime> tensors;
  std::unique_ptr<rt::Event> issued, gathered, reduced;
  // Last member: workers end before the members that they use.
  std::unique_ptr<rt::Stream> compute, gather, reduce;
};

} // namespace fsdp::profile

#endif // FSDP_TOOLS_PROFILE_COLLECTIVESTREAMS_H
