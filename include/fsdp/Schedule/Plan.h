//===- Plan.h - What is gathered, together with what, and when ---*- C++ -*-===//
//
// A plan is what a program can say: an order of issue. Every choice is a position of the program
// (Problem.h), so that a plan means the same on every rank and under every timing.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_PLAN_H
#define FSDP_SCHEDULE_PLAN_H

#include "fsdp/Schedule/Problem.h"

namespace fsdp::schedule {

/// Gathers that are launched together and complete together. A group has one copy at a time: it is
/// not gathered again while its previous use's copy is there. All of them are gathered from chunks,
/// or none, and their groups are of one mesh.
struct GatherBucket {
  std::vector<uint32_t> uses; // in order of use
  uint32_t launch = 0;        // position
  bool byCopyEngine = false;  // else by kernels
  bool operator==(const GatherBucket &) const = default;
};

/// Reductions of one mesh that are launched together and complete together.
struct ReductionBucket {
  std::vector<uint32_t> reductions; // in order of readiness
  uint32_t launch = 0;              // position; at least the last member's `ready`
  uint32_t wait = 0;                // position; at least `launch`, at most the first member's update
  bool operator==(const ReductionBucket &) const = default;
};

struct Plan {
  /// By use: served by the copy that the group's previous use left.
  std::vector<uint8_t> kept;
  std::vector<GatherBucket> gathers;       // in the order of their lane; launches do not decrease
  std::vector<ReductionBucket> reductions; // likewise, launches and waits
  /// Reductions run on the gathers' lane, although there are two.
  bool shareLane = false;
  /// By use: gathered from the chunks that the group's previous use left. Empty: none is.
  std::vector<uint8_t> chunked = {};
  bool isChunked(uint32_t use) const { return !chunked.empty() && chunked[use]; }
  bool operator==(const Plan &) const = default;
};

/// Proves, without the simulator's help, that the plan is complete and that no timing can make it
/// wrong: every use is kept or gathered exactly once, before its first operation, from chunks
/// only where its group has them, by copy engines only where its mesh has these; every reduction
/// happens exactly once between `ready` and `update`; lanes have one order; no wait precedes what
/// it waits for, so that nothing deadlocks; the memory cap holds at every position. Returns what is
/// wrong, for people.
std::optional<std::string> verify(const Problem &problem, const Plan &plan);

/// The plan's peak bytes and the operation at which (or before which) it occurs, by the rules of
/// Problem.h. Independent of timing. O(n).
struct Peak {
  int64_t bytes = 0;
  uint32_t operation = 0;
};
Peak peakOf(const Problem &problem, const Plan &plan);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_PLAN_H
