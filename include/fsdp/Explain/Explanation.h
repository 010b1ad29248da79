//===- Explanation.h - Why a plan is as it is --------------------*- C++ -*-===//
//
// Reasons follow from the plan, its timeline and its memory alone: why a collective could not be
// launched one operation earlier, and what keeping a copy would have cost. So they hold for any
// plan, also for one that was edited by hand.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EXPLAIN_EXPLANATION_H
#define FSDP_EXPLAIN_EXPLANATION_H

#include "fsdp/Explain/ScheduleView.h"

namespace fsdp::explain {

/// How much memory is left under the cap while an operation runs; negative: how much is missing.
struct Headroom {
  uint32_t operation = 0;
  int64_t bytes = 0;
};

/// A use of a group that is not its first.
struct KeepReason {
  uint32_t use = 0;
  bool kept = false;
  /// Gathered from chunks, by so many neighbours; 0: not.
  int64_t chunkRanks = 0;
  double chunkNs = 0; // what that gather takes
  schedule::KeepRule rule = schedule::KeepRule::Free;
  int64_t sizeBytes = 0; // held in between if kept
  double gapNs = 0;      // from the end of the previous use to the beginning of this one
  double laneNs = 0;     // the gather's, that keeping saves
  /// At the tightest operation in between, with the copy if it is kept. None: no cap, or
  /// nothing in between.
  std::optional<Headroom> tightest;
};

/// Why a collective is not launched one operation earlier.
enum class HeldBy : uint8_t {
  Start,      // nothing: it is launched at the beginning of the step
  Gradients,  // nothing: it is launched as soon as its gradients are there
  Release,    // the group's own copy, which is still there until then
  Lane,       // the lane is busy when it is launched: earlier it would begin no earlier
  LaneBefore, // the lane becomes free during the operation before
  Memory,     // it does not fit beside the operation before
  Turn,       // the collective before it on its lane is launched here too
  Choice      // nothing: it could be launched at `earliest`
};

struct LaunchReason {
  uint32_t collective = 0; // index into the view's
  HeldBy by = HeldBy::Choice;
  /// First position at which it could be launched, everything else unchanged.
  uint32_t earliest = 0;
  std::optional<Headroom> tightest; // Memory
  std::optional<uint32_t> other;    // Lane, LaneBefore, Turn: index into the view's collectives
  double latencySavedNs = 0;        // by what is merged
};

struct Explanation {
  std::vector<KeepReason> keeps;      // by use, first uses of groups left out
  std::vector<LaunchReason> launches; // by collective of the view
};

/// `view` is the plan's. O(n log n).
Explanation explain(const schedule::Problem &problem, const schedule::Plan &plan,
                    const ScheduleView &view);

/// In one sentence: "kept for 310 ms, which saves 2.1 ms of gathering; 1.2 GiB are left at ...".
std::string describe(const KeepReason &reason, const ScheduleView &view);
/// "lane busy with all_gather layers.3".
std::string describe(const LaunchReason &reason, const ScheduleView &view);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_EXPLANATION_H
