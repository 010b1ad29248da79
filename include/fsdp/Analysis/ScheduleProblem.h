//===- ScheduleProblem.h - A step as a scheduling problem -------*- C++ -*-===//
//
// The operations of the problem are what runs on the compute stream: calls that are no views,
// writes of buffers, updates, and copies. Live ranges become the problem's bytes, so that
// peakOf(problem, plan) is the memory planner's fsdp.peak_live_bytes, to the byte.
//
// In the per-param layout computation copies parameters out of what a gather brings, when it waits
// for that, and gradients into a reduction's input. In the problem of a sharded step these are
// operations at fixed places: a copy-out where each use begins, kept or not, and a copy-in where a
// group's gradients are complete, whenever their reduction starts. So its times and bytes are a
// little more than those of the scheduled step, which is read as it is.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_SCHEDULEPROBLEM_H
#define FSDP_ANALYSIS_SCHEDULEPROBLEM_H

#include "fsdp/Analysis/StateCopies.h"
#include "fsdp/Analysis/StepMemory.h"
#include "fsdp/CostModel/CostModel.h"
#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Simulate.h"

namespace fsdp {

/// Where the shard of a group is updated.
enum class UpdatePlacement : uint8_t {
  Interleaved, // once the gradients of the next group are ready; with replicas, of the one after it
  AtEnd        // after everything else
};

/// True for what waits for reductions, and runs when these are done: updates, and what casts or
/// adds up reduced shards.
bool readsReduced(mlir::Operation &op);

/// A buffer that is part of the problem's `liveBytes` while operations first, ..., last run.
struct OperationRange {
  uint32_t first, last;
  size_t range; // index into LiveRanges
  /// It is not there, though the problem counts its bytes as those of a gathered copy.
  bool isFreed = false;
};

/// When the optimizer state of a group, or a value that waits on the host, is copied, at positions
/// of a problem. State is fetched before it is stored, a gradient or an activation behind that.
struct ScheduledHostCopy {
  mlir::Operation *fetch = nullptr, *fetchWait = nullptr, *store = nullptr, *storeWait = nullptr;
  mlir::Operation *update = nullptr; // of optimizer state; null of a value
  uint32_t fetchLaunch = 0, fetchWaited = 0, storeLaunch = 0, storeWaited = 0;
  /// Of a value whose copy is free to move: its live range before that, the operation that makes
  /// it, and the last one to read it there.
  std::optional<size_t> storedRange = {};
  uint32_t madeAt = 0, lastStoredReader = 0;
  uint32_t lastReader = 0; // of a value: the last operation to read what is fetched
  int64_t bytes = 0;       // of the value, or of all states of the group
  double copyNs = 0;    // one way
  double exposedNs = 0; // what computation waits, for both ways
};

/// What happens to a copy, in the order at one position.
enum class HostCopyEventKind : uint8_t { StoreStart, StoreWait, FetchStart, FetchWait };

struct HostCopyEvent {
  uint32_t position;
  HostCopyEventKind kind;
  size_t copy;
};

/// All events of the copies, in the order of the step.
std::vector<HostCopyEvent> getEvents(llvm::ArrayRef<ScheduledHostCopy> copies);

/// A problem, and what its parts are in the module.
struct ScheduleProblem {
  schedule::Problem problem;
  /// By operation: an aten.call, fsdp.write or fsdp.update; where gradients are copied, the
  /// reduction's start or the fsdp.pack, and where parameters are, the gather's wait. Null: a pause
  /// of no duration between events in an order that the problem's order at one position does not
  /// allow.
  std::vector<mlir::Operation *> operations;
  /// Copies of parameters that a plan spares by keeping a use's copy.
  struct SparedCopy {
    uint32_t use, operation;
  };
  std::vector<SparedCopy> sparedCopies;
  /// Copies of gradients, which are made when their reduction starts.
  std::vector<uint32_t> gradientCopies;
  bool hasCopies() const { return !sparedCopies.empty() || !gradientCopies.empty(); }
  /// Of a scheduled step, whose chunks are operations and bytes of the problem: what the schedule
  /// could have decided, by group, and what it did: the operation that makes a chunk, and the last
  /// one beside which it lies.
  struct ChosenChunk {
    uint32_t first, last;
    int64_t bytes;
  };
  std::vector<std::optional<schedule::Chunk>> chunkChoices;
  std::vector<ChosenChunk> chosenChunks;
  /// Takes the copies that `plan` spares out of the durations and bytes.
  void spareCopies(const schedule::Plan &plan);
  /// A problem in which no plan takes longer or needs more: without any of these copies, and with
  /// chunks as a choice.
  schedule::Problem getRelaxed() const;
  /// The operation of this index, or the one behind it if it is a pause.
  mlir::Operation *lookup(uint32_t operation) const;
  /// By use: the gather that serves it. Two uses that share one are kept.
  std::vector<AllGatherStartOp> gathers;
  std::vector<ReduceScatterStartOp> reductions; // by reduction
  /// Of groups whose optimizer state is on the host, by update, and of activations that wait there;
  /// of a scheduled step also of gradients. Computation waits for copies as part of the operation
  /// behind the wait: of all durations, `exposedCopyNs`.
  std::vector<ScheduledHostCopy> hostCopies;
  double exposedCopyNs = 0;
  /// What the operations' `liveBytes` consist of.
  std::vector<OperationRange> ranges;
  /// Relative standard deviations, as the cost model has them; of computation, by duration.
  double computeSpread = 0, networkSpread = 0;
  int64_t numRanks = 1; // that wait for each other

  /// How much durations vary; none where nothing says it.
  std::optional<schedule::Jitter> getJitter(uint64_t seed = 0) const {
    if (computeSpread <= 0 && networkSpread <= 0)
      return std::nullopt;
    return schedule::Jitter{.computeSpread = computeSpread,
                            .networkSpread = networkSpread,
                            .ranks = static_cast<uint32_t>(numRanks),
                            .seed = seed};
  }
};

/// A scheduled step: its problem and the plan that it follows.
struct ScheduledStep : ScheduleProblem {
  schedule::Plan plan;
};

/// What may be decided about a sharded module of several ranks. In the flat layout all gradients
/// lie in their reduction's input and are not read after its start (PlaceGradients.h). A group is
/// free to be kept where it says `auto`, else as it stands. The cap becomes the problem's;
/// optimizer state on the host is fetched before its update, and stored behind it, as early and as
/// late as it takes to hide that and the cap allows. So are activations, whose stores start and
/// whose fetches end where they stand, and which are in the arena for no longer than they are in
/// the module. Errors name a gradient.
llvm::FailureOr<ScheduleProblem>
getScheduleProblem(mlir::ModuleOp module, const StepMemory &memory, const cost::CostModel &costs,
                   UpdatePlacement placement, std::optional<int64_t> memoryCapBytes = std::nullopt);

/// What a scheduled or planned module does, in whatever order: that of a pass or edited by hand.
/// The plan passes schedule::verify if the module passes fsdp-verify-scheduled. Errors name
/// reductions that are waited for in another order than they are started.
llvm::FailureOr<ScheduledStep> getScheduledStep(mlir::ModuleOp module, const StepMemory &memory,
                                                const cost::CostModel &costs);

/// A lower bound on what every plan of the problem takes, by linear programming only where the
/// cheap one leaves a gap of more than `quickRatio` to `makespanNs`.
schedule::LowerBound findBound(const ScheduleProblem &step, double makespanNs,
                               double quickRatio = 1.001);

} // namespace fsdp

#endif // FSDP_ANALYSIS_SCHEDULEPROBLEM_H
