//===- ScheduleSearch.h - The search for a schedule -------------*- C++ -*-===//
//
// The search of fsdp-optimize-schedule, for all passes that need a schedule.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TRANSFORMS_SCHEDULESEARCH_H
#define FSDP_TRANSFORMS_SCHEDULESEARCH_H

#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/Transforms/Choices.h"
#include "fsdp/Transforms/PlanMemo.h"

namespace fsdp {

/// Options as text: those of the passes (passes/SearchOptions.h) and of the pipeline.
struct SearchFlags {
  ScheduleChoice choice = ScheduleChoice::Auto;
  std::string memoryCap = "0"; // 80000000, 70GiB; 0: no cap
  bool buckets = true;
  std::string maxBucketSize = "0"; // 1GiB; 0: no limit
  uint64_t seed = 0;
  int64_t budget = 3000; // simulations
  bool offloadChunks = false; // chunks may wait on the host
  cost::CostOptions costs = {};
};

/// A verified plan of a sharded step that has become a scheduled one. The problem's operation
/// pointers must not be used.
struct FoundSchedule {
  ScheduleProblem step;
  schedule::Plan plan;
  double makespanNs = 0;
  double boundNs = 0;                                 // 0: not requested
  std::optional<schedule::JitteredMakespan> jittered; // if the costs have deviations
};

/// A change that may make a step fit under a cap.
struct StepChange {
  std::optional<RecomputePolicy> recompute = {}; // nullopt: unchanged
  int64_t shardFactor = 1;                       // multiplies the shards of each group
  OffloadChoices offload = {};
  std::optional<FusionChoice> fusion = {}; // nullopt: unchanged
};

/// The least peak, in bytes, of any schedule of the changed step; nullopt if the changed step
/// cannot be scheduled.
using FindLeastPeak = llvm::function_ref<std::optional<int64_t>(const StepChange &change)>;

class ScheduleSearch {
public:
  /// Reads the files that the flags name. Errors are reported at the module, with flag and file.
  /// Outcomes are taken from `memo`, and remembered there.
  static llvm::FailureOr<ScheduleSearch> load(mlir::ModuleOp module, const SearchFlags &flags,
                                              std::shared_ptr<PlanMemo> memo);

  const cost::CostModel &getCosts() const { return *costs; }
  /// The cap minus the temporaries of the module's operators, as far as they are measured: the
  /// limit of the arena. May be negative; nullopt without a cap.
  std::optional<int64_t> getArenaCapBytes(mlir::ModuleOp module) const;

  /// Turns a sharded module into a scheduled one whose arena fits the cap. nullopt on one rank,
  /// where there is nothing to decide. Diagnoses a module with a given order, and a cap that no
  /// schedule fits; in that case with changes that would fit, if `findLeastPeak` is given.
  llvm::FailureOr<std::optional<FoundSchedule>> run(mlir::ModuleOp module,
                                                    FindLeastPeak findLeastPeak = {}) const;

private:
  ScheduleSearch(const SearchFlags &flags, std::shared_ptr<cost::CostModel> costs,
                 std::shared_ptr<PlanMemo> memo, int64_t capBytes, int64_t maxBucketBytes)
      : flags(flags), costs(std::move(costs)), memo(std::move(memo)), capBytes(capBytes),
        maxBucketBytes(maxBucketBytes) {}

  SearchFlags flags;
  std::shared_ptr<cost::CostModel> costs; // passes are copied
  std::shared_ptr<PlanMemo> memo;
  int64_t capBytes, maxBucketBytes;       // 0: no limit
};

/// The bytes of `option=text`. Errors are reported at the module.
llvm::FailureOr<int64_t> parseSizeOption(mlir::ModuleOp module, llvm::StringRef option,
                                         llvm::StringRef text);

/// Errors are reported at the module.
llvm::FailureOr<std::shared_ptr<cost::CostModel>> loadCosts(mlir::ModuleOp module,
                                                            const cost::CostOptions &options);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_SCHEDULESEARCH_H
