//===- ScheduleSearch.h - The schedule that a user's flags ask for -*- C++ -*-===//
//
// What fsdp-optimize-schedule does, for all passes that need a schedule.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TRANSFORMS_SCHEDULESEARCH_H
#define FSDP_TRANSFORMS_SCHEDULESEARCH_H

#include "fsdp/Analysis/ScheduleProblem.h"
#include "fsdp/Transforms/Choices.h"

namespace fsdp {

/// As a user types them: options of the passes (passes/SearchOptions.h) and of the pipeline.
struct SearchFlags {
  ScheduleChoice choice = ScheduleChoice::Auto;
  std::string memoryCap = "0"; // 80000000, 70GiB; 0: no cap
  bool buckets = true;
  std::string maxBucketSize = "0"; // 1GiB; 0: no limit
  uint64_t seed = 0;
  int64_t budget = 3000; // simulations
  cost::CostOptions costs = {};
};

/// A verified plan of a sharded step, which has become the scheduled one: the problem's operations
/// are gone.
struct FoundSchedule {
  ScheduleProblem step;
  schedule::Plan plan;
  double makespanNs = 0;
  double boundNs = 0;                                 // 0: not asked for
  std::optional<schedule::JitteredMakespan> jittered; // where durations are known to vary
};

/// How a step that does not fit might be made to.
struct StepChange {
  std::optional<RecomputePolicy> recompute = {}; // none: as it is
  int64_t shardFactor = 1;                       // of the shards of each group
  OffloadChoices offload = {};
  std::optional<FusionChoice> fusion = {}; // none: as it is
};

/// The least peak, in bytes, of any schedule of the step changed so; none where that is no step
/// that can be scheduled.
using FindLeastPeak = llvm::function_ref<std::optional<int64_t>(const StepChange &change)>;

class ScheduleSearch {
public:
  /// Reads the files that the flags name. Errors, at the module, name flag and file.
  static llvm::FailureOr<ScheduleSearch> load(mlir::ModuleOp module, const SearchFlags &flags);

  const cost::CostModel &getCosts() const { return *costs; }
  /// What the cap leaves to the arena beside the temporaries of the module's operators, as far as
  /// they are measured; may be negative. None: no cap.
  std::optional<int64_t> getArenaCapBytes(mlir::ModuleOp module) const;

  /// Turns a sharded module into the scheduled one that fits the cap, its arena included. None on
  /// one rank, where there is nothing to decide. Diagnoses an order that is given already, and a
  /// cap that nothing fits, with what would make it fit if `findLeastPeak` is given.
  llvm::FailureOr<std::optional<FoundSchedule>> run(mlir::ModuleOp module,
                                                    FindLeastPeak findLeastPeak = {}) const;

private:
  ScheduleSearch(const SearchFlags &flags, std::shared_ptr<cost::CostModel> costs, int64_t capBytes,
                 int64_t maxBucketBytes)
      : flags(flags), costs(std::move(costs)), capBytes(capBytes), maxBucketBytes(maxBucketBytes) {}

  SearchFlags flags;
  std::shared_ptr<cost::CostModel> costs; // passes are copied
  int64_t capBytes, maxBucketBytes;       // 0: no limit
};

/// What `option=text` says, in bytes. The error is at the module.
llvm::FailureOr<int64_t> parseSizeOption(mlir::ModuleOp module, llvm::StringRef option,
                                         llvm::StringRef text);

/// The error is at the module.
llvm::FailureOr<std::shared_ptr<cost::CostModel>> loadCosts(mlir::ModuleOp module,
                                                            const cost::CostOptions &options);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_SCHEDULESEARCH_H
