//===- ListSchedule.h - From decisions to positions ---------------*- C++ -*-===//
//
// A list scheduler. Decisions say which uses are kept and which collectives form a bucket. The
// scheduler launches each collective at the first position at which its lane is free and its memory
// is free until its use. For fixed keeps and independent lanes this is optimal: a later launch
// gains nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_LISTSCHEDULE_H
#define FSDP_SCHEDULE_LISTSCHEDULE_H

#include "fsdp/Schedule/Plan.h"

#include <memory>

namespace fsdp::schedule {

struct Decisions {
  std::vector<uint8_t> kept; // by use
  struct Gathers {
    std::vector<uint32_t> uses; // in order of use
    uint32_t gate = 0;          // first position at which they may be launched
    bool byCopyEngine = false;  // where the mesh has copy engines; else by kernels
    bool operator==(const Gathers &) const = default;
  };
  std::vector<Gathers> gathers;                  // in the order in which they are wanted
  std::vector<std::vector<uint32_t>> reductions; // buckets, in order of readiness
  /// By reduction: its gate. The bucket is launched before the gate only if the launch cannot be
  /// put off. Empty: no gates.
  std::vector<uint32_t> reductionGates;
  /// Which goes first when a gather and a reduction could both start on one lane.
  bool gathersGoFirst = false;
  bool shareLane = false;
  /// A tighter cap than the problem's, for gathers ahead of their uses. It leads to other plans.
  std::optional<int64_t> memoryCapBytes;
  /// As Plan::chunked. A bucket of uses with several numbers becomes several launches.
  std::vector<uint8_t> chunked = {};
  bool operator==(const Decisions &) const = default;
};

struct ListScheduleResult {
  /// Nullopt if the kept copies or the buckets do not fit into memory, if a bucket waits for
  /// members while computation waits for its memory, or if the decisions do not name each use and
  /// each reduction once.
  std::optional<Plan> plan;
  double makespanNs = 0; // of the plan: simulate()'s, up to the rounding of sums
};

/// Schedules many decisions for one problem. The problem must outlive the scheduler and may not
/// change. Facts about the problem alone are derived once, and again when the set of uses that are
/// gathered from chunks changes. Time is linear in the operations, and in the number of operations
/// between each gather's launch and its use.
class ListScheduler {
public:
  /// `maxBucketBytes` is the most that a launch of several members may move, counted in gathered
  /// bytes or in bytes before the reduction. Larger buckets become several launches.
  explicit ListScheduler(const Problem &problem,
                         std::optional<int64_t> maxBucketBytes = std::nullopt);
  ~ListScheduler();
  ListScheduleResult operator()(const Decisions &decisions);

private:
  const Problem &problem;
  const std::optional<int64_t> maxBucketBytes;
  std::unique_ptr<const struct TaskContext> context; // of the last decisions
};

ListScheduleResult listSchedule(const Problem &problem, const Decisions &decisions);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_LISTSCHEDULE_H
