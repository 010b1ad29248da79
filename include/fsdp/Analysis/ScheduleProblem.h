//===- ScheduleProblem.h - A step as a scheduling problem -------*- C++ -*-===//
//
// The problem's operations are those of the compute stream: calls that are not views, writes of
// buffers, updates, and copies. Live ranges become the problem's bytes, so that peakOf(problem,
// plan) equals the memory planner's fsdp.peak_live_bytes.
//
// In the per-param layout the compute stream copies parameters out of a gather's output after the
// wait (copy-out), and gradients into a reduction's input (copy-in). In the problem of a sharded
// step these copies are operations at fixed positions: a copy-out at the beginning of each use,
// even if the parameters are kept, and a copy-in where a group's gradients are complete, whenever
// their reduction starts. So its times and bytes slightly exceed those of the scheduled step, which
// is read as it is.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_SCHEDULEPROBLEM_H
#define FSDP_ANALYSIS_SCHEDULEPROBLEM_H

#include "fsdp/Analysis/HostCopyWait.h"
#include "fsdp/Analysis/StateCopies.h"
#include "fsdp/Analysis/StepMemory.h"
#include "fsdp/CostModel/CostModel.h"
#include "fsdp/Schedule/LowerBound.h"
#include "fsdp/Schedule/Simulate.h"

namespace fsdp {

/// When the shard of a group is updated.
enum class UpdatePlacement : uint8_t {
  Interleaved, // once the gradients of the next group (with replicas: the one after it) are ready
  AtEnd        // after everything else
};

/// True for operations that wait for reductions: updates, and casts and sums of reduced shards.
bool readsReduced(mlir::Operation &op);

/// A buffer that is part of the problem's `liveBytes` while operations first, ..., last run.
struct OperationRange {
  uint32_t first, last;
  size_t range; // index into LiveRanges
  /// The buffer is not live here, though the problem counts its bytes in those of a gathered copy.
  bool isFreed = false;
};

/// The host copies of a group's optimizer state or of a single value, at positions of a problem.
/// State is fetched and then stored. A gradient or an activation is stored and then fetched. A
/// chunk is only stored: the fetch is part of its gather.
struct ScheduledHostCopy {
  bool isOfChunk() const { return !fetch; }
  mlir::Operation *fetch = nullptr, *fetchWait = nullptr, *store = nullptr, *storeWait = nullptr;
  mlir::Operation *update = nullptr; // of optimizer state; null for a gradient or activation
  uint32_t fetchLaunch = 0, fetchWaited = 0, storeLaunch = 0, storeWaited = 0;
  /// Of a value whose copies the schedule may move: its live range before the store, the operation
  /// that computes it, and its last reader before the store.
  std::optional<size_t> storedRange = {};
  uint32_t madeAt = 0, lastStoredReader = 0;
  uint32_t lastReader = 0; // of a value: the last operation that reads the fetched copy
  int64_t bytes = 0;       // of the value, or of all states of the group
  double copyNs = 0;    // one way
  double exposedNs = 0; // time that computation waits, both ways together
};

/// The events of a host copy, in their order at one position.
enum class HostCopyEventKind : uint8_t { StoreStart, StoreWait, FetchStart, FetchWait };

struct HostCopyEvent {
  uint32_t position;
  HostCopyEventKind kind;
  size_t copy;
};

/// All events of the copies, in the order of the step.
std::vector<HostCopyEvent> getEvents(llvm::ArrayRef<ScheduledHostCopy> copies);

/// A problem, and the operations of the module that its parts stand for.
struct ScheduleProblem {
  schedule::Problem problem;
  /// By operation of the problem: an aten.call, fsdp.write or fsdp.update; for a copy-in the
  /// reduction's start or the fsdp.pack; for a copy-out the gather's wait. Null for a pause: an
  /// operation of duration 0 that separates two events whose order the problem does not allow at
  /// one position.
  std::vector<mlir::Operation *> operations;
  /// Copies of parameters that a plan avoids by keeping a use's gathered copy.
  struct SparedCopy {
    uint32_t use, operation;
  };
  std::vector<SparedCopy> sparedCopies;
  /// Copy-ins of gradients, which run when their reduction starts.
  std::vector<uint32_t> gradientCopies;
  bool hasCopies() const { return !sparedCopies.empty() || !gradientCopies.empty(); }
  /// Of a scheduled step, whose chunks are already operations and bytes of the problem. By group:
  /// the chunks that the schedule could have kept; on the host if it keeps any there. Then the
  /// chunks that it keeps: the operation that makes the chunk, and the last operation during which
  /// the chunk is live.
  struct ChosenChunk {
    uint32_t first, last;
    int64_t bytes;
  };
  std::vector<std::vector<schedule::Chunk>> chunkChoices;
  std::vector<ChosenChunk> chosenChunks;
  /// Subtracts the copies that `plan` avoids from the durations and bytes.
  void spareCopies(const schedule::Plan &plan);
  /// A relaxation, in which no plan takes longer or needs more memory: without any of these copies,
  /// and with chunks as a choice.
  schedule::Problem getRelaxed() const;
  /// The operation whose duration includes the wait.
  size_t findOperation(const HostCopyWait &wait) const {
    return std::min<size_t>(wait.position, problem.operations.size() - 1);
  }
  /// The module's operation at this index, or the next one if the index is a pause.
  mlir::Operation *lookup(uint32_t operation) const;
  /// By use: the gather that serves it. Two uses share a gather if the copy is kept between them.
  std::vector<AllGatherStartOp> gathers;
  std::vector<ReduceScatterStartOp> reductions; // by reduction
  /// Copies of optimizer state on the host, by update, and of activations on the host; of a
  /// scheduled step also of gradients. The times that computation waits for them are part of the
  /// durations of operations; `exposedCopyNs` is the sum of these times.
  std::vector<ScheduledHostCopy> hostCopies;
  std::vector<HostCopyWait> hostCopyWaits; // in the order of the step
  double exposedCopyNs = 0;
  /// The buffers that make up the operations' `liveBytes`.
  std::vector<OperationRange> ranges;
  /// Relative standard deviations from the cost model; of computation, weighted by duration.
  double computeSpread = 0, networkSpread = 0;
  int64_t numRanks = 1; // ranks that wait for each other

  /// How durations vary; nullopt if the cost model has no deviations.
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

/// The decisions that are open in a sharded module of several ranks. In the flat layout all
/// gradients lie in their reduction's input and are not read after its start (PlaceGradients.h).
/// Whether a group is kept is open where the group says `auto`, and fixed elsewhere. The cap
/// becomes the problem's. Optimizer state on the host is fetched before its update and stored after
/// it, far enough away to hide the copies as far as the cap allows. Activations on the host are
/// copied likewise: their stores start and their fetches end where the module has them, and they
/// are never in the arena for longer than in the module. With `mayOffloadChunks` chunks may wait on
/// the host. Errors name a gradient.
llvm::FailureOr<ScheduleProblem>
getScheduleProblem(mlir::ModuleOp module, const StepMemory &memory, const cost::CostModel &costs,
                   UpdatePlacement placement, std::optional<int64_t> memoryCapBytes = std::nullopt,
                   bool mayOffloadChunks = false);

/// The problem and plan of a scheduled or planned module in its own order, from a pass or from an
/// edit by hand. The plan passes schedule::verify if the module passes fsdp-verify-scheduled.
/// Errors name reductions that are waited for in another order than they are started.
llvm::FailureOr<ScheduledStep> getScheduledStep(mlir::ModuleOp module, const StepMemory &memory,
                                                const cost::CostModel &costs);

/// A lower bound on the makespan of every plan of the problem. Linear programming is used only if
/// `makespanNs` exceeds the cheap bound by more than the factor `quickRatio`.
schedule::LowerBound findBound(const ScheduleProblem &step, double makespanNs,
                               double quickRatio = 1.001);

} // namespace fsdp

#endif // FSDP_ANALYSIS_SCHEDULEPROBLEM_H
