//===- ScheduleProblem.h - A step as a scheduling problem -------*- C++ -*-===//
//
// The operations of the problem are what runs on the compute stream: calls that are no views,
// writes of buffers, updates, and copies of gradients. Live ranges become the problem's bytes, so
// that peakOf(problem, plan) is the memory planner's fsdp.peak_live_bytes, to the byte. Flat layout
// only.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_SCHEDULEPROBLEM_H
#define FSDP_ANALYSIS_SCHEDULEPROBLEM_H

#include "fsdp/Analysis/StateCopies.h"
#include "fsdp/Analysis/StepMemory.h"
#include "fsdp/CostModel/CostModel.h"
#include "fsdp/Schedule/Simulate.h"

namespace fsdp {

/// Where the shard of a group is updated.
enum class UpdatePlacement : uint8_t {
  Interleaved, // once the gradients of the next group are ready; with replicas, of the one after it
  AtEnd        // after everything else
};

/// A buffer that is part of the problem's `liveBytes` while operations first, ..., last run.
struct OperationRange {
  uint32_t first, last;
  size_t range; // index into LiveRanges
};

/// When the optimizer state of a group is copied, at positions of a problem.
struct ScheduledStateCopy {
  StateCopy ops;
  uint32_t fetchLaunch, fetchWait, storeLaunch, storeWait;
  int64_t bytes = 0;    // of all states of the group
  double copyNs = 0;    // one way
  double exposedNs = 0; // what computation waits, for both ways
};

/// What happens to optimizer state, in the order at one position.
enum class StateCopyEventKind : uint8_t { StoreStart, StoreWait, FetchStart, FetchWait };

struct StateCopyEvent {
  uint32_t position;
  StateCopyEventKind kind;
  size_t copy;
};

/// All events of the copies, in the order of the step.
std::vector<StateCopyEvent> getEvents(llvm::ArrayRef<ScheduledStateCopy> copies);

/// A problem, and what its parts are in the module.
struct ScheduleProblem {
  schedule::Problem problem;
  /// By operation: an aten.call, fsdp.write or fsdp.update; where gradients are copied, the
  /// reduction's start or the fsdp.pack. Null: a pause of no duration between events in an order
  /// that the problem's order at one position does not allow.
  std::vector<mlir::Operation *> operations;
  /// The operation of this index, or the one behind it if it is a pause.
  mlir::Operation *lookup(uint32_t operation) const;
  /// By use: the gather that serves it. Two uses that share one are kept.
  std::vector<AllGatherStartOp> gathers;
  std::vector<ReduceScatterStartOp> reductions; // by reduction
  /// By update: of groups whose optimizer state is on the host. Computation waits for copies as
  /// part of the operation behind the wait: of all durations, `exposedCopyNs`.
  std::vector<ScheduledStateCopy> stateCopies;
  double exposedCopyNs = 0;
  /// What the operations' `liveBytes` consist of.
  std::vector<OperationRange> ranges;
  /// Relative standard deviations, as the cost model has them; of computation, by duration.
  double computeSpread = 0, networkSpread = 0;

  /// How much durations vary; none where nothing says it.
  std::optional<schedule::Jitter> getJitter(uint64_t seed = 0) const {
    if (computeSpread <= 0 && networkSpread <= 0)
      return std::nullopt;
    return schedule::Jitter{
        .computeSpread = computeSpread, .networkSpread = networkSpread, .seed = seed};
  }
};

/// A scheduled step: its problem and the plan that it follows.
struct ScheduledStep : ScheduleProblem {
  schedule::Plan plan;
};

/// What may be decided about a sharded module of several ranks, all of whose gradients lie in their
/// reduction's input and are not read after its start (PlaceGradients.h). A group is free to be
/// kept where it says `auto`, else as it stands. The cap becomes the problem's; optimizer state on
/// the host is fetched before its update, and stored behind it, as early and as late as it takes to
/// hide that and the cap allows. Errors name a group in the per-param layout, or a gradient.
llvm::FailureOr<ScheduleProblem>
getScheduleProblem(mlir::ModuleOp module, const StepMemory &memory, const cost::CostModel &costs,
                   UpdatePlacement placement, std::optional<int64_t> memoryCapBytes = std::nullopt);

/// What a scheduled or planned module does, in whatever order: that of a pass or edited by hand.
/// The plan passes schedule::verify if the module passes fsdp-verify-scheduled. Errors name a group
/// in the per-param layout, or reductions that are waited for in another order than they are
/// started.
llvm::FailureOr<ScheduledStep> getScheduledStep(mlir::ModuleOp module, const StepMemory &memory,
                                                const cost::CostModel &costs);

} // namespace fsdp

#endif // FSDP_ANALYSIS_SCHEDULEPROBLEM_H
