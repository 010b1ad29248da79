//===- Tasks.h - The collectives of decisions and the room for them -*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_TASKS_H
#define FSDP_LIB_SCHEDULE_TASKS_H

#include "Room.h"
#include "Simulate/Streams.h"
#include "fsdp/Schedule/ListSchedule.h"

namespace fsdp::schedule {

/// A bucket of gathers that has to be launched somewhere from `earliest` to `first`.
struct GatherTask {
  std::vector<uint32_t> uses;
  uint32_t earliest = 0; // its gate; and the copies that it replaces are gone
  uint32_t first = 0;    // operation that reads it first
  int64_t bytes = 0;
  CollectiveDuration duration;
  bool byCopyEngine = false;
  /// It had room when this many buckets were launched.
  size_t checkedAt = SIZE_MAX;
  bool isLaunched = false;
  Ticket ticket;
};

/// A bucket of reductions that has to be launched and waited for somewhere from `ready` to
/// `update`.
struct ReductionTask {
  std::vector<uint32_t> reductions;
  uint32_t ready = 0, update = 0; // positions
  uint32_t gate = 0;              // not launched before if it can be put off
  int64_t inputBytes = 0, outputBytes = 0;
  CollectiveDuration duration;
  std::optional<CollectiveDuration> across; // over replicas
  Ticket ticket, acrossTicket;
};

/// What decisions ask for, beside the one schedule that needs the least memory: each gather at its
/// first use, each reduction done at the first position with room for its output beside its input,
/// but behind its gate if it can be put off.
struct Tasks {
  std::vector<GatherTask> gathers;
  std::vector<ReductionTask> reductions; // by `ready`
  /// By position, before anything is launched there: bytes of reductions that become ready, less
  /// copies and shards that nothing needs any more.
  std::vector<int64_t> changes;
  /// By operation: what copies that are launched before their use may take, while it runs and at
  /// the position behind it, so that the rest can go on by that schedule.
  Room room;
  int64_t capBytes = 0;
};

/// What depends on the problem, and on which uses are gathered from chunks, alone.
struct TaskContext {
  explicit TaskContext(const Problem &problem, const std::vector<uint8_t> &chunked = {});
  const std::vector<uint8_t> chunked; // by use; empty: none is
  const std::optional<Problem> changed;
  const Problem &problem; // with what chunks add to operations
  std::vector<int32_t> previousUses, nextUses;
  std::vector<int64_t> reductionChanges; // as Tasks::changes, without copies
  std::vector<double> beginNs;           // by position, without any waiting
};

/// Whether the groups of all uses that are to be gathered from chunks have these.
bool mayChunkAll(const TaskContext &context, const Decisions &decisions);

/// None if the decisions are incomplete, break a rule of a group, or fit no schedule.
std::optional<Tasks> makeTasks(const TaskContext &context, const Decisions &decisions,
                               std::optional<int64_t> maxBucketBytes = std::nullopt);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_TASKS_H
