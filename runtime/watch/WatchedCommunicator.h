//===- WatchedCommunicator.h - Tracks the progress of collectives -*- C++ -*-===//
//
// Passes every call on to another communicator and notes in a StepProgress when each collective of
// the plan is issued, starts and completes: on the host if the call blocks, on the lane's stream if
// it does not. Collectives of all lanes but control must be the plan's, in its order; any other
// collective is an error, and is not issued.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_WATCH_WATCHEDCOMMUNICATOR_H
#define FSDP_RUNTIME_WATCH_WATCHEDCOMMUNICATOR_H

#include "watch/StepProgress.h"

namespace fsdp::rt {

class WatchedCommunicator final : public Communicator {
public:
  /// All arguments outlive the object.
  WatchedCommunicator(Communicator &inner, const PlanView &plan, StepProgress &progress)
      : Communicator(inner), inner(inner), plan(plan), progress(progress), states(numLanes()) {}

  Result<std::byte *> makeArena(size_t bytes) override { return inner.makeArena(bytes); }
  void setGroup(unsigned lane, const char *group) override { inner.setGroup(lane, group); }
  Status allGather(unsigned lane, const void *input, void *output, size_t bytes) override;
  Status reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                       fsdp_dtype dtype, ReduceOp op) override;
  Status reduceScatterScaled(unsigned lane, void *input, void *output, size_t count,
                             fsdp_dtype dtype, double factor) override;
  Status divide(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                double divisor) override {
    return inner.divide(lane, data, count, dtype, divisor);
  }
  Status allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype, ReduceOp op) override;
  Status broadcast(unsigned lane, void *data, size_t bytes, unsigned root) override;
  Status barrier(unsigned lane) override { return inner.barrier(lane); }
  bool useStream(unsigned lane, Stream &stream) override;
  Status beginGroup(unsigned lane) override;
  Status endGroup(unsigned lane) override;
  bool coalesces() const override { return inner.coalesces(); }
  Status beginCapture() override;
  void endCapture(bool kept) override;
  Status health() override { return inner.health(); }
  void abort(const Status &reason) override { inner.abort(reason); }

private:
  /// Issues a collective of `bytes` per rank by calling `issue`.
  template <typename Issue>
  Status run(unsigned lane, fsdp_entry_kind kind, size_t bytes, Issue &&issue);
  void mark(unsigned lane, ProgressWord &word, uint32_t value);

  Communicator &inner;
  const PlanView plan;
  StepProgress &progress;

  struct LaneState {
    Stream *stream = nullptr; // null: the lane's calls block
    bool grouped = false;
    uint32_t lastOfGroup = 0;  // number of the collective; 0: none yet
    uint32_t issuedBefore = 0; // the capture
  };
  std::vector<LaneState> states; // by lane
  // A stream could not write a mark; no marks are written since then.
  std::atomic<bool> marksLost{false};
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_WATCH_WATCHEDCOMMUNICATOR_H
