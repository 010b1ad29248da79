//===- ListSchedule.h - From decisions to positions ---------------*- C++ -*-===//
//
// A list scheduler: given what to keep and what to send together, launches each collective at the
// first position at which its lane is free and its memory is there and stays there until its use.
// For fixed keeps and independent lanes this is optimal: nothing is gained by launching later.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_LISTSCHEDULE_H
#define FSDP_SCHEDULE_LISTSCHEDULE_H

#include "fsdp/Schedule/Plan.h"

#include <memory>
#include <mutex>

namespace fsdp::schedule {

struct Decisions {
  std::vector<uint8_t> kept; // by use
  struct Gathers {
    std::vector<uint32_t> uses; // in order of use
    uint32_t gate = 0;          // first position at which they may be launched
    bool byCopyEngine = false;  // those that may; others by kernels
    bool operator==(const Gathers &) const = default;
  };
  std::vector<Gathers> gathers;                  // in the order in which they are wanted
  std::vector<std::vector<uint32_t>> reductions; // buckets, in order of readiness
  /// By reduction: position before which its bucket is not launched as long as it can be put off.
  /// Empty: no gates.
  std::vector<uint32_t> reductionGates;
  /// When a gather and a reduction could start on one lane; else the reduction goes first.
  bool gathersGoFirst = false;
  bool shareLane = false;
  /// Tighter than the problem's cap, to find other schedules: for gathers ahead of their uses.
  std::optional<int64_t> memoryCapBytes;
  /// By use: gathered from chunks. Empty: none is. A bucket in which some are is two.
  std::vector<uint8_t> chunked = {};
  bool operator==(const Decisions &) const = default;
};

struct ListScheduleResult {
  /// None: what is kept or merged does not fit, or a bucket waits for members while computation
  /// waits for its memory; or decisions that do not name each use and each reduction once.
  std::optional<Plan> plan;
  double makespanNs = 0; // of the plan, as simulate() finds it, but for the rounding of sums
};

/// For many decisions on one problem, which has to outlive it and may not change. What depends on
/// the problem alone is found once, and again where other uses are gathered from chunks. Linear in
/// operations, and in how many each gather is ahead of its use. Several threads may call one
/// scheduler.
class ListScheduler {
public:
  /// `maxBucketBytes`: that a launch of several members may move, gathered or not yet reduced;
  /// larger buckets become several launches.
  explicit ListScheduler(const Problem &problem,
                         std::optional<int64_t> maxBucketBytes = std::nullopt);
  ~ListScheduler();
  ListScheduleResult operator()(const Decisions &decisions) const;

private:
  std::shared_ptr<const struct TaskContext> findContext(const Decisions &decisions) const;

  const Problem &problem;
  const std::optional<int64_t> maxBucketBytes;
  const std::shared_ptr<const struct TaskContext> plain; // nothing is chunked
  mutable std::mutex mutex;                              // guards `last`
  mutable std::shared_ptr<const struct TaskContext> last;
};

ListScheduleResult listSchedule(const Problem &problem, const Decisions &decisions);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_LISTSCHEDULE_H
