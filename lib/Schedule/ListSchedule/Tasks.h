//===- Tasks.h - Launches to place, and the room for them -------*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_TASKS_H
#define FSDP_LIB_SCHEDULE_TASKS_H

#include "Room.h"
#include "Simulate/Streams.h"
#include "fsdp/Schedule/ListSchedule.h"

namespace fsdp::schedule {

/// A bucket of gathers that must be launched at a position in [earliest, first].
struct GatherTask {
  std::vector<uint32_t> uses;
  uint32_t earliest = 0; // earliest start: at its gate, and after its groups' previous copies
  uint32_t first = 0;    // first operation that reads a copy of the bucket
  int64_t bytes = 0;
  CollectiveDuration duration;
  bool byCopyEngine = false;
  /// The number of launched buckets when the task was last found to have room.
  size_t checkedAt = SIZE_MAX;
  bool isLaunched = false;
  Ticket ticket;
};

/// A bucket of reductions whose launch and wait must be at positions in [ready, update].
struct ReductionTask {
  std::vector<uint32_t> reductions;
  uint32_t ready = 0, update = 0; // positions
  uint32_t gate = 0;              // position; an earlier launch only if it cannot be put off
  int64_t inputBytes = 0, outputBytes = 0;
  CollectiveDuration duration;
  std::optional<CollectiveDuration> across; // over replicas
  Ticket ticket, acrossTicket;
};

/// The launches that decisions ask for, and the memory that the schedule of least memory leaves
/// free.
struct Tasks {
  std::vector<GatherTask> gathers;
  std::vector<ReductionTask> reductions; // by `ready`
  /// By position, before its launches: input bytes of reductions that become ready minus bytes of
  /// copies and shards after their last use.
  std::vector<int64_t> changes;
  std::vector<int64_t> begins; // by operation: bytes of the copies gathered for it
  /// By operation: the bytes that copies launched before their use may take, while the operation
  /// runs and at the position after it. All other collectives can then follow the schedule of least
  /// memory.
  Room room;
  int64_t capBytes = 0;
};

/// The schedule of least memory. Each gather is launched at its first use. Each reduction is
/// launched and waited for at the first position with room for its output beside its input; if it
/// can be put off, at the first such position from its gate on. An early reduction frees memory, so
/// no later choice suffers.
struct LeastMemory {
  /// By operation: the most bytes that are live while it runs and at the position after it.
  std::vector<int64_t> bytes;
  Peak peak;
};
/// Nullopt if the schedule exceeds the cap of the tasks.
std::optional<LeastMemory> findLeastMemory(const Problem &problem, const Tasks &tasks);

/// Facts that depend only on the problem and on the set of uses that are gathered from chunks.
struct TaskContext {
  explicit TaskContext(const Problem &problem, const std::vector<uint8_t> &chunked = {});
  const std::vector<uint8_t> chunked; // by use; empty: none is
  const std::optional<Problem> changed;
  const Problem &problem; // includes the time and bytes of chunks
  std::vector<int32_t> previousUses;
  std::vector<int64_t> reductionChanges; // as Tasks::changes, without copies
  std::vector<double> beginNs;           // by position, without any waiting
};

/// Whether the decisions name each use and each reduction once, keep copies as KeepRule allows, and
/// gather from chunks only where groups have chunks.
bool isComplete(const TaskContext &context, const Decisions &decisions);

/// Each use that is not kept is gathered in a bucket of its own, and each reduction is a bucket of
/// its own. `gates`, by use, may be empty.
Decisions decideSingly(const Problem &problem, std::vector<uint8_t> kept,
                       const std::vector<uint32_t> &gates = {});

/// The decisions must be complete. Nullopt if they need more memory than the cap even in the
/// schedule of least memory.
std::optional<Tasks> makeTasks(const TaskContext &context, const Decisions &decisions,
                               std::optional<int64_t> maxBucketBytes = std::nullopt);

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_TASKS_H
