//===- SearchOptions.h - Search flags from and to pass options --*- C++ -*-===//
//
// Passes.td defines the options: searchOptions and costOptions.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_SEARCHOPTIONS_H
#define FSDP_PASSES_SEARCHOPTIONS_H

#include "fsdp/Transforms/ScheduleSearch.h"
#include "passes/Passes.h"

namespace fsdp {

/// The passes with a memo that they share with other passes.
std::unique_ptr<mlir::Pass> createChooseRecompute(ChooseRecomputeOptions options,
                                                  std::shared_ptr<PlanMemo> memo);
std::unique_ptr<mlir::Pass> createOptimizeSchedule(OptimizeScheduleOptions options,
                                                   std::shared_ptr<PlanMemo> memo);

/// Converts cost options from and to the options of a pass or a pipeline that has options of these
/// names.
template <typename Options> cost::CostOptions getCostOptions(const Options &options) {
  return {options.device, options.profile, options.network, options.computeJitter,
          options.networkJitter};
}
template <typename Options> void setCostOptions(const cost::CostOptions &costs, Options &options) {
  options.device = costs.device;
  options.profile = costs.profile;
  options.network = costs.network;
  options.computeJitter = costs.computeJitter;
  options.networkJitter = costs.networkJitter;
}

/// Converts search flags to the options of a pass that derives from SearchingPass.
template <typename Options> Options toOptions(const SearchFlags &flags) {
  Options options;
  options.choice = flags.choice;
  options.memoryCap = flags.memoryCap;
  options.buckets = flags.buckets;
  options.seed = flags.seed;
  options.budget = flags.budget;
  options.maxBucketSize = flags.maxBucketSize;
  options.offloadChunks = flags.offloadChunks;
  setCostOptions(flags.costs, options);
  return options;
}

/// A pass whose generated options are the flags of a search.
template <typename Base> struct SearchingPass : Base {
  using Base::Base;

  /// The passes of a pipeline share one.
  std::shared_ptr<PlanMemo> memo = std::make_shared<PlanMemo>();

protected:
  SearchFlags getSearchFlags() const {
    // The options are protected members of the generated base.
    return {this->choice,
            this->memoryCap,
            this->buckets,
            this->maxBucketSize,
            this->seed,
            this->budget,
            this->offloadChunks,
            {this->device, this->profile, this->network, this->computeJitter, this->networkJitter}};
  }
};

} // namespace fsdp

#endif // FSDP_PASSES_SEARCHOPTIONS_H
