//===- Plan.h - Buckets, and the positions of launches and waits -*- C++ -*-===//
//
// A plan is an order of issue, which a program can state. Launches and waits are at positions of
// the program (Problem.h), so a plan means the same on every rank and under every timing.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_PLAN_H
#define FSDP_SCHEDULE_PLAN_H

#include "fsdp/Schedule/Problem.h"

namespace fsdp::schedule {

/// Gathers that are launched together and complete together. Their groups are of one mesh, and all
/// of them have the same number in `chunked`. A group has one copy at a time: its next
/// gather is launched after the copy of its previous use is released.
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
  uint32_t wait = 0;                // position in [`launch`, the first member's update]
  bool operator==(const ReductionBucket &) const = default;
};

struct Plan {
  /// By use: whether it reads the copy that the group's previous use left.
  std::vector<uint8_t> kept;
  std::vector<GatherBucket> gathers;       // in the order of their lane; launches do not decrease
  std::vector<ReductionBucket> reductions; // likewise; launches and waits do not decrease
  /// True: reductions run on the gathers' lane although the problem has two lanes.
  bool shareLane = false;
  /// By use: 0 if it is gathered from all ranks, else the number, counted from 1, of the group's
  /// chunk that the group's previous use left and from which it is gathered. Empty: all are 0.
  std::vector<uint8_t> chunked = {};
  uint8_t chunkedOf(uint32_t use) const { return chunked.empty() ? uint8_t(0) : chunked[use]; }
  bool isChunked(uint32_t use) const { return chunkedOf(use) > 0; }
  bool operator==(const Plan &) const = default;
};

/// Proves without the simulator that the plan is complete and correct under every timing:
///   every use is kept, or gathered exactly once before its first operation;
///   a use is gathered from chunks only if its group has them, from the host only after they have
///   been stored there, and by copy engines only if its mesh has them;
///   every reduction happens exactly once between `ready` and `update`;
///   each lane has one order, and each wait comes after its launch, so no deadlock is possible;
///   the memory cap holds at every position.
/// Returns an error message for people; nullopt if the plan is correct.
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
