//===- Explanation.h - Reasons of a plan's decisions ------------*- C++ -*-===//
//
// Reasons follow from the plan, its timeline and its memory alone: why a collective could not be
// launched one operation earlier, and what keeping a copy would have cost. They hold for any plan,
// also for one that was edited by hand.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EXPLAIN_EXPLANATION_H
#define FSDP_EXPLAIN_EXPLANATION_H

#include "fsdp/Explain/ScheduleView.h"

namespace fsdp::explain {

/// The memory left under the cap while an operation runs; negative: the memory that is missing.
struct Headroom {
  uint32_t operation = 0;
  int64_t bytes = 0;
};

/// Why a group's copy is kept or not before a use that is not its first.
struct KeepReason {
  uint32_t use = 0;
  bool kept = false;
  /// The number of neighbours from whose chunks it is gathered; 0: no chunks.
  int64_t chunkRanks = 0;
  bool isChunkOnHost = false;
  double chunkNs = 0; // duration of that gather
  schedule::KeepRule rule = schedule::KeepRule::Free;
  int64_t sizeBytes = 0; // held in between if kept
  double gapNs = 0;      // from the end of the previous use to the beginning of this one
  double laneNs = 0;     // time on the gather lane that keeping saves
  /// At the tightest operation in between, with the copy if it is kept. nullopt without a cap, or
  /// without operations in between.
  std::optional<Headroom> tightest;
};

/// Why a collective is not launched one operation earlier.
enum class HeldBy : uint8_t {
  Start,      // the launch is at the beginning of the step
  Gradients,  // its gradients are not ready earlier
  Release,    // the group's own copy is still live before
  Store,      // its chunk is being stored on the host before
  Lane,       // the lane is busy at the launch: an earlier launch would not begin earlier
  LaneBefore, // the lane becomes free during the operation before
  Memory,     // it does not fit beside the operation before
  Turn,       // the preceding collective of its lane is launched here too
  Order,      // on GPUs: it begins with a collective of another lane that is launched before it
  Choice      // no reason: it could be launched at `earliest`
};

struct LaunchReason {
  uint32_t collective = 0; // index into the view's
  HeldBy by = HeldBy::Choice;
  /// First position at which it could be launched with everything else unchanged.
  uint32_t earliest = 0;
  std::optional<Headroom> tightest; // Memory
  /// Lane, LaneBefore, Turn, Order: index into the view's collectives. Order: its all-reduce over
  /// replicas, if it has one.
  std::optional<uint32_t> other;
  double latencySavedNs = 0;        // by merging
};

struct Explanation {
  std::vector<KeepReason> keeps;      // by use, without first uses of groups
  std::vector<LaunchReason> launches; // by collective of the view
};

/// `view` must be that of `plan`. O(n log n) of n operations, and on GPUs O(c²) of c collectives.
Explanation explain(const schedule::Problem &problem, const schedule::Plan &plan,
                    const ScheduleView &view);

/// As a sentence: "kept for 310 ms, which saves 2.1 ms of gathering; 1.2 GiB are left at ...".
std::string describe(const KeepReason &reason, const ScheduleView &view);
/// "lane busy with all_gather layers.3".
std::string describe(const LaunchReason &reason, const ScheduleView &view);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_EXPLANATION_H
