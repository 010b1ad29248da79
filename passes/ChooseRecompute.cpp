//===- ChooseRecompute.cpp - How much to recompute ------------------------===//
//
// Lets RecomputeUnderCap.cpp or RecomputeWithoutCap.cpp choose policies, runs fsdp-recompute with
// them, and records the reasons.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step.h"
#include "fsdp/CostModel/Temporaries.h"
#include "fsdp/Transforms/Decisions.h"
#include "mlir/IR/Remarks.h"
#include "passes/Pipelines.h"
#include "passes/RecomputeChoice.h"
#include "passes/SearchOptions.h"

namespace fsdp {
#define GEN_PASS_DEF_CHOOSERECOMPUTE
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

struct ChooseRecomputePass
    : public SearchingPass<fsdp::impl::ChooseRecomputeBase<ChooseRecomputePass>> {
  using SearchingPass::SearchingPass;

  void runOnOperation() override;

private:
  void freeGroups(Step &step);
  void restoreRequests(Step &step);
  LogicalResult checkOffload(bool hasCap, bool isDecided, int64_t numRanks);
  LogicalResult recompute(RecomputePolicy rootPolicy);
  LogicalResult apply(Step &step, const RecomputeChoice &choice);
  void announce(const RecomputeChoice &choice);
  void recordRecomputation(StringRef reason, bool isOfAll);
  void recordActivations(Step &step, StringRef reason);
  void offloadStates(Step &step, StringRef why);

  int64_t numBlocks = 0;                  // whose policy this pass chooses
  SmallVector<RecomputePolicyAttr> asked; // by group
  SmallVector<GroupOp> freed;             // whose policy this pass chooses
};

} // namespace

/// The limit of the arena if the user gives no cap; none if the device's memory is unknown.
static std::optional<int64_t> getDeviceBytes(ModuleOp module, const cost::CostModel &costs) {
  // 1 / kUnknownPart of the memory is for temporaries if no profile has measured them.
  constexpr int64_t kUnknownPart = 32;
  if (costs.getMemoryBytes() == 0)
    return std::nullopt;
  const cost::Temporaries temporaries = cost::findTemporaries(module, costs);
  const int64_t unknownBytes = temporaries.areKnown() ? 0 : costs.getMemoryBytes() / kUnknownPart;
  return costs.getFreeBytes() - temporaries.scratchBytes - unknownBytes;
}

/// Warns of a cap of the arena beside which driver and libraries do not fit.
static void warnIfTooLarge(ModuleOp module, int64_t capBytes, const cost::CostModel &costs) {
  const int64_t freeBytes =
      costs.getFreeBytes() - cost::findTemporaries(module, costs).scratchBytes;
  if (getTarget(module) != Target::Cuda || costs.getMemoryBytes() == 0 || capBytes <= freeBytes)
    return;
  module.emitWarning("the memory cap leaves ")
      << capBytes << " bytes to the arena, but of the device's " << costs.getMemoryBytes()
      << " bytes driver and libraries leave " << freeBytes;
}

void ChooseRecomputePass::announce(const RecomputeChoice &choice) {
  ModuleOp module = getOperation();
  const RecomputeCandidate &chosen = choice.candidate;
  RecomputeAttr attr = chosen.getAttr(&getContext(), numBlocks);
  auto remark =
      remark::analysis(module.getLoc(), remark::RemarkOpts::name("choice").category(getArgument()));
  remark << remark::metric("Policy", stringifyRecomputePolicy(attr.getPolicy()))
         << remark::metric("RecomputedBlocks", attr.getBlocks())
         << remark::metric("Blocks", numBlocks)
         << remark::metric("OffloadedBlocks", chosen.countOffloaded());
  if (choice.makespanNs)
    remark << remark::metric("PredictedNs", *choice.makespanNs);
  if (attr.getPolicy() != RecomputePolicy::Cheap || chosen.countOffloaded() > 0)
    module.emitRemark(chosen.describe(numBlocks, choice.isFitting));
  if (!chosen.whyOffloaded.empty())
    module.emitRemark("optimizer state is on the host between updates: ") << chosen.whyOffloaded;
}

/// Removes the policy from groups whose policy is to be chosen, and writes the user's policy, of
/// the group or of the step, into the others. restoreRequests() undoes this.
void ChooseRecomputePass::freeGroups(Step &step) {
  for (GroupOp group : step.groups) {
    asked.push_back(group.getRecomputeAttr());
    std::optional<RecomputePolicy> own = group.getRecompute();
    if (own == RecomputePolicy::Auto ||
        (!own && policy == RecomputePolicy::Auto && group.isBlock()))
      freed.push_back(group);
    if (own == RecomputePolicy::Auto)
      group.removeRecomputeAttr();
    else if (!own && policy != RecomputePolicy::Auto)
      group.setRecompute(
          group.isBlock() ? policy : std::min<RecomputePolicy>(policy, RecomputePolicy::Cheap));
  }
}

void ChooseRecomputePass::restoreRequests(Step &step) {
  for (auto [group, request] : llvm::zip_equal(step.groups, asked)) {
    if (request)
      group.setRecomputeAttr(request);
    else
      group.removeRecomputeAttr();
  }
}

/// The reason why `auto` means `cheap` if no schedule is searched for.
static StringRef explainCheap(Step &step, bool isLimited) {
  if (!isLimited)
    return "without a memory cap, or a device whose memory is known, auto means cheap";
  if (!step.isSharded())
    return "where parameters are not sharded auto means cheap";
  return "for the root group, which is no block, auto means cheap";
}

/// Records the reason in all freed groups, or only in those that ask for `auto` themselves.
void ChooseRecomputePass::recordRecomputation(StringRef reason, bool isOfAll) {
  for (GroupOp group : freed) {
    if (!isOfAll && group.getRecompute() != RecomputePolicy::Auto)
      continue;
    RecomputePolicy policy = group.getRecomputed().value_or(RecomputePolicy::None);
    recordDecision(group,
                   {Subject::Recomputed,
                    "recomputes by policy " + stringifyRecomputePolicy(policy).str(), reason.str()},
                   getArgument());
  }
}

/// Records where the ladder's steps keep the activations of groups, and why.
void ChooseRecomputePass::recordActivations(Step &step, StringRef reason) {
  for (GroupOp group : step.groups)
    if (group.areActivationsOnHost())
      recordDecision(group,
                     {Subject::Activations, "keeps its activations on the host", reason.str()},
                     getArgument());
}

/// Offloads the optimizer state of groups without a request of their own.
void ChooseRecomputePass::offloadStates(Step &step, StringRef why) {
  for (GroupOp group : step.groups) {
    if (group.getOffloadOptimizer() || step.getTrained(group).empty())
      continue;
    group.setOptimizerState(StatePlace::Host);
    if (!why.empty())
      recordDecision(group,
                     {Subject::OptimizerState, "has its optimizer state on the host", why.str()},
                     getArgument());
  }
}

/// Runs fsdp-recompute. Groups have their policies as attributes; `rootPolicy` is the root's.
LogicalResult ChooseRecomputePass::recompute(RecomputePolicy rootPolicy) {
  RecomputeOptions options;
  options.policy = rootPolicy;
  OpPassManager manager(ModuleOp::getOperationName());
  addRecompute(manager, options);
  return runPipeline(manager, getOperation());
}

LogicalResult ChooseRecomputePass::checkOffload(bool hasCap, bool isDecided, int64_t numRanks) {
  const bool isAuto = offload == OffloadPolicy::Auto || activations == OffloadPolicy::Auto;
  if (!isAuto || (isDecided && hasCap))
    return success();
  return getOperation().emitError(offload == OffloadPolicy::Auto ? "offload-optimizer"
                                                                 : "offload-activations")
         << "=auto decides nothing on " << numRanks << " ranks with " << (hasCap ? "a" : "no")
         << " memory-cap; expected all or none";
}

void ChooseRecomputePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(expectPhase(module, getArgument(), ModulePhase::Captured)))
    return signalPassFailure();
  FailureOr<Step> step = Step::collect(module);
  if (failed(step))
    return signalPassFailure();
  FailureOr<ScheduleSearch> search = ScheduleSearch::load(module, getSearchFlags(), memo);
  if (failed(search))
    return signalPassFailure();
  asked.clear();
  freed.clear();
  freeGroups(*step);
  numBlocks = static_cast<int64_t>(collectFreeBlocks(module).size());
  const std::optional<int64_t> capBytes = search->getArenaCapBytes(module);
  if (capBytes)
    warnIfTooLarge(module, *capBytes, search->getCosts());
  const std::optional<int64_t> limitBytes =
      capBytes ? capBytes : getDeviceBytes(module, search->getCosts());
  const bool isDecided =
      limitBytes && step->isSharded() &&
      (numBlocks > 0 ||
       (capBytes && (offload == OffloadPolicy::Auto || activations == OffloadPolicy::Auto)));
  if (failed(checkOffload(capBytes.has_value(), isDecided, step->getWorldSize())))
    return signalPassFailure();
  if (!isDecided) {
    for (GroupOp group : freed)
      group.setRecompute(RecomputePolicy::Cheap);
    if (failed(recompute(std::min<RecomputePolicy>(policy, RecomputePolicy::Cheap))))
      return signalPassFailure();
    restoreRequests(*step);
    // The request of groups without a policy is `auto` of the whole step.
    return recordRecomputation(explainCheap(*step, limitBytes.has_value()), /*isOfAll=*/false);
  }
  const RecomputeRequest request{fusion, {offload, activations}};
  FailureOr<RecomputeChoice> choice = capBytes
                                          ? chooseUnderCap(module, *search, request, *limitBytes)
                                          : chooseWithoutCap(module, *search, request, *limitBytes);
  if (failed(choice) || failed(apply(*step, *choice)))
    return signalPassFailure();
}

LogicalResult ChooseRecomputePass::apply(Step &step, const RecomputeChoice &choice) {
  ModuleOp module = getOperation();
  if (choice.isFitting)
    announce(choice);
  const RecomputeCandidate &chosen = choice.candidate;
  const std::string reason = chosen.describe(numBlocks, choice.isFitting);
  applySteps(module, chosen.steps);
  recordActivations(step, reason);
  if (chosen.offload == OffloadPolicy::All)
    offloadStates(step, chosen.whyOffloaded);
  if (failed(recompute(chosen.getRootPolicy(numBlocks))))
    return failure();
  restoreRequests(step);
  recordRecomputation(reason, /*isOfAll=*/true);
  if (numBlocks > 0)
    module->setAttr(FsdpDialect::getRecomputeAttrName(), chosen.getAttr(&getContext(), numBlocks));
  return success();
}

std::unique_ptr<Pass> fsdp::createChooseRecompute(ChooseRecomputeOptions options,
                                                  std::shared_ptr<PlanMemo> memo) {
  auto pass = std::make_unique<ChooseRecomputePass>(std::move(options));
  pass->memo = std::move(memo);
  return pass;
}
