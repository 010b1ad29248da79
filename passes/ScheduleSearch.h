//===- ScheduleSearch.h - The schedule that a user's flags ask for -*- C++ -*-===//
//
// What fsdp-optimize-schedule does, for all passes that need a schedule.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_SCHEDULESEARCH_H
#define FSDP_PASSES_SCHEDULESEARCH_H

#include "fsdp/Analysis/ScheduleProblem.h"
#include "passes/Passes.h"

namespace fsdp {

/// As a user types them: options of the passes and of the pipeline.
struct SearchFlags {
  ScheduleChoice choice = ScheduleChoice::Auto;
  std::string memoryCap = "0"; // 80000000, 70GiB; 0: no cap
  bool buckets = true;
  uint64_t seed = 0;
  int64_t budget = 3000; // simulations
  cost::CostOptions costs = {};

  /// Options of a pass that derives from SearchingPass.
  template <typename Options> Options to() const {
    Options options;
    options.choice = choice;
    options.memoryCap = memoryCap;
    options.buckets = buckets;
    options.seed = seed;
    options.budget = budget;
    options.device = costs.device;
    options.profile = costs.profile;
    options.network = costs.network;
    return options;
  }
};

/// A pass whose options, as generated, are the flags of a search.
template <typename Base> struct SearchingPass : Base {
  using Base::Base;

protected:
  SearchFlags getSearchFlags() const {
    return {this->choice, this->memoryCap, this->buckets,
            this->seed,   this->budget,    {this->device, this->profile, this->network}};
  }
};

/// A verified plan of a sharded step, which has become the scheduled one: the problem's operations
/// are gone.
struct FoundSchedule {
  ScheduleProblem step;
  schedule::Plan plan;
  double makespanNs = 0;
  double boundNs = 0; // 0: not asked for
};

class ScheduleSearch {
public:
  /// Reads the files that the flags name. Errors, at the module, name flag and file.
  static llvm::FailureOr<ScheduleSearch> load(mlir::ModuleOp module, const SearchFlags &flags);

  const cost::CostModel &getCosts() const { return *costs; }
  int64_t getCapBytes() const { return capBytes; } // 0: no cap

  /// Turns a sharded module into the scheduled one that fits the cap, its arena included. None on
  /// one rank, where there is nothing to decide. Diagnoses an order that is given already and a cap
  /// that nothing fits.
  llvm::FailureOr<std::optional<FoundSchedule>> run(mlir::ModuleOp module) const;

private:
  ScheduleSearch(const SearchFlags &flags, std::shared_ptr<cost::CostModel> costs, int64_t capBytes)
      : flags(flags), costs(std::move(costs)), capBytes(capBytes) {}

  SearchFlags flags;
  std::shared_ptr<cost::CostModel> costs; // passes are copied
  int64_t capBytes;
};

/// "fsdp2", "asap" or "auto".
llvm::StringRef nameChoice(ScheduleChoice choice);

/// What `memory-cap=text` says, in bytes. The error is at the module.
llvm::FailureOr<int64_t> parseMemoryCap(mlir::ModuleOp module, llvm::StringRef text);

/// The error is at the module.
llvm::FailureOr<std::shared_ptr<cost::CostModel>> loadCosts(mlir::ModuleOp module,
                                                            const cost::CostOptions &options);

} // namespace fsdp

#endif // FSDP_PASSES_SCHEDULESEARCH_H
