//===- OptimizeSchedule.cpp - The best schedule under a memory cap --------===//

#include "fsdp/Analysis/Step.h"
#include "fsdp/Transforms/Decisions.h"
#include "mlir/IR/Remarks.h"
#include "passes/KernelChoice.h"
#include "passes/LeastPeak.h"
#include "passes/SearchOptions.h"

namespace fsdp {
#define GEN_PASS_DEF_OPTIMIZESCHEDULE
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {
struct OptimizeSchedulePass
    : public SearchingPass<fsdp::impl::OptimizeScheduleBase<OptimizeSchedulePass>> {
  using SearchingPass::SearchingPass;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, getArgument(), ModulePhase::Sharded)))
      return signalPassFailure();
    FailureOr<ScheduleSearch> search = ScheduleSearch::load(module, getSearchFlags(), memo);
    if (failed(search))
      return signalPassFailure();
    OwningOpRef<ModuleOp> unfused = module.clone();
    OpPassManager fuse(ModuleOp::getOperationName());
    fuse.addPass(createFuse({.fusion = fusion}));
    if (failed(runPipeline(fuse, module)))
      return signalPassFailure();
    FailureOr<std::optional<FoundSchedule>> found = findSchedule(*search, *unfused);
    if (failed(found))
      return signalPassFailure();
    if (!*found)
      return;
    if (offloadChunks && llvm::all_of((*found)->step.problem.groups,
                                      [](const auto &group) { return group.chunks.empty(); }))
      module.emitRemark("offload-chunks has no effect: no group may keep chunks, which needs a "
                        "network that says how many ranks a host has, and several hosts");
    module->setAttr(
        FsdpDialect::getBoundAttrName(),
        Builder(&getContext()).getI64IntegerAttr(static_cast<int64_t>((*found)->boundNs)));
    report(**found);
  }

private:
  FailureOr<std::optional<FoundSchedule>> findSchedule(const ScheduleSearch &search,
                                                       ModuleOp unfused);
  void report(const FoundSchedule &found);
};
} // namespace

/// Finds a schedule of the module, which has been fused. If the choice of kernels is free and only
/// the step without kernels fits, replaces the module by `unfused` and finds its schedule. If
/// neither fits, the error is about the step that needs less.
FailureOr<std::optional<FoundSchedule>>
OptimizeSchedulePass::findSchedule(const ScheduleSearch &search, ModuleOp unfused) {
  ModuleOp module = getOperation();
  const auto choices = listKernelChoices(fusion, memoryCap != "0");
  auto findPeakWith = [&](FusionChoice kernels, const StepChange &change) {
    constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
    return findLeastPeak(unfused, search.getCosts(), change, kernels).value_or(kNone);
  };
  auto findPeak = [&](const StepChange &change) -> std::optional<int64_t> {
    int64_t bytes = findPeakWith(fusion, change);
    for (FusionChoice kernels : llvm::ArrayRef(choices).drop_front())
      bytes = std::min(bytes, findPeakWith(kernels, change));
    return bytes;
  };
  if (choices.size() == 1)
    return search.run(module, findPeak);
  OwningOpRef<ModuleOp> refused = module.clone(), plain = unfused.clone();
  std::vector<Diagnostic> messages;
  auto runQuietly = [&](ModuleOp step) {
    messages.clear();
    ScopedDiagnosticHandler quiet(&getContext(), [&](Diagnostic &diag) {
      messages.push_back(std::move(diag));
      return success();
    });
    return search.run(step);
  };
  FailureOr<std::optional<FoundSchedule>> found = runQuietly(module);
  if (failed(found)) {
    found = runQuietly(*plain);
    if (failed(found)) {
      if (findPeakWith(FusionChoice::Off, {}) < findPeakWith(fusion, {}))
        refused = unfused.clone();
      return search.run(*refused, findPeak);
    }
    leaveOutKernels(module, *plain);
  }
  for (Diagnostic &diag : messages)
    getContext().getDiagEngine().emit(std::move(diag));
  return found;
}

void OptimizeSchedulePass::report(const FoundSchedule &found) {
  ModuleOp module = getOperation();
  for (auto group : module.getOps<GroupOp>())
    if (StringAttr reason = group.getReason(Subject::ReshardRanks))
      recordDecision(group,
                     {Subject::ReshardRanks,
                      "keeps chunks over " + std::to_string(*group.getReshardRanks()) + " ranks",
                      reason.getValue().str()},
                     getArgument());
  unsigned kept = llvm::count(found.plan.kept, 1), chunked = 0, chunksOnHost = 0;
  for (auto [use, number] : llvm::enumerate(found.plan.chunked)) {
    chunked += number > 0;
    chunksOnHost += number > 0 && found.step.problem.chunkOf(use, number).isOnHost;
  }
  double ratio = found.boundNs > 0 ? found.makespanNs / found.boundNs : 0;
  auto jittered = found.jittered.value_or(schedule::JitteredMakespan());
  remark::analysis(module.getLoc(), remark::RemarkOpts::name("schedule").category(getArgument()))
      << remark::metric("PredictedNs", found.makespanNs) << remark::metric("BoundNs", found.boundNs)
      << remark::metric("Ratio", ratio) << remark::metric("MeanNs", jittered.meanNs)
      << remark::metric("Percentile95Ns", jittered.percentile95Ns) << remark::metric("Kept", kept)
      << remark::metric("Chunked", chunked) << remark::metric("ChunksOnHost", chunksOnHost)
      << remark::metric("Gathers", found.plan.kept.size() - kept)
      << remark::metric("GatherLaunches", found.plan.gathers.size())
      << remark::metric("Reductions", found.step.reductions.size())
      << remark::metric("ReductionLaunches", found.plan.reductions.size())
      << remark::metric("PeakLiveBytes", schedule::peakOf(found.step.problem, found.plan).bytes);
}

std::unique_ptr<Pass> fsdp::createOptimizeSchedule(OptimizeScheduleOptions options,
                                                   std::shared_ptr<PlanMemo> memo) {
  auto pass = std::make_unique<OptimizeSchedulePass>(std::move(options));
  pass->memo = std::move(memo);
  return pass;
}
