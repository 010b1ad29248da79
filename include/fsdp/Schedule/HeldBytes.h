//===- HeldBytes.h - A plan's bytes at each moment ---------------*- C++ -*-===//
//
// The rules of Problem.h for what a plan holds beside the operations' own bytes. Peaks, and
// whatever splits or shows memory, follow this walk.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_HELDBYTES_H
#define FSDP_SCHEDULE_HELDBYTES_H

#include "fsdp/Schedule/IssueOrder.h"

namespace fsdp::schedule {

/// Live bytes beside those of operations.
struct HeldBytes {
  int64_t gathered = 0;  // copies of parameters
  int64_t gradients = 0; // inputs of reductions, reduced shards
  int64_t total() const { return gathered + gradients; }
};

/// A moment at a position. The peak is at a launch or at an operation: gathers are launched last at
/// a position, and the operation that follows has at least as many live bytes.
enum class HeldAt : uint8_t {
  Arrival,   // before all launches and waits
  Launch,    // of a reduction: its input and its output are live
  Operation, // while the operation runs
};

/// By use: the last operation that reads the use's gathered copy. The uses in `kept` read the copy
/// of the group's previous use.
std::vector<uint32_t> findCopyEnds(const Problem &problem, const std::vector<int32_t> &previousUses,
                                   const std::vector<uint8_t> &kept);

/// Visits the order of issue; see walkHeldBytes.
template <typename Visit> class HeldBytesWalk {
public:
  HeldBytesWalk(const Problem &problem, const Plan &plan, Visit &visit)
      : problem(problem), plan(plan), visit(visit), changes(problem.operations.size() + 1) {
    const std::vector<uint32_t> ends = findCopyEnds(problem, problem.previousUses(), plan.kept);
    for (const GatherBucket &bucket : plan.gathers)
      for (uint32_t use : bucket.uses)
        changes[ends[use] + 1].gathered -= problem.groupOfUse(use).gatheredBytes;
    for (const Reduction &reduction : problem.reductions) {
      changes[reduction.ready].gradients += reduction.inputBytes;
      changes[reduction.update + 1].gradients -= reduction.outputBytes;
    }
  }

  void run() {
    arrive(0);
    walkIssueOrder(problem, plan, *this);
  }

  void launchReduction(uint32_t index) {
    held.gradients += sumOver(index, &Reduction::outputBytes);
    visit(HeldAt::Launch, position, held);
  }
  void waitForReduction(uint32_t index) {
    held.gradients -= sumOver(index, &Reduction::inputBytes);
  }
  void launchGather(uint32_t index) {
    for (uint32_t use : plan.gathers[index].uses)
      held.gathered += problem.groupOfUse(use).gatheredBytes;
  }
  void waitForGather(uint32_t) {}
  void waitForAcross(uint32_t) {}
  void compute(uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; ++i) {
      visit(HeldAt::Operation, i, held);
      arrive(i + 1);
    }
  }

private:
  void arrive(uint32_t at) {
    position = at;
    held.gathered += changes[at].gathered;
    held.gradients += changes[at].gradients;
    if (at < problem.operations.size())
      visit(HeldAt::Arrival, at, held);
  }
  int64_t sumOver(uint32_t bucket, int64_t Reduction::*bytes) const {
    int64_t sum = 0;
    for (uint32_t index : plan.reductions[bucket].reductions)
      sum += problem.reductions[index].*bytes;
    return sum;
  }

  const Problem &problem;
  const Plan &plan;
  Visit &visit;
  std::vector<HeldBytes> changes; // by position, before its launches and waits
  HeldBytes held;
  uint32_t position = 0;
};

/// Calls `visit(moment, position, held)` for each moment of each operation's position, in the order
/// of issue. Linear in operations plus collectives.
template <typename Visit>
void walkHeldBytes(const Problem &problem, const Plan &plan, Visit &&visit) {
  HeldBytesWalk<Visit>(problem, plan, visit).run();
}

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_HELDBYTES_H
