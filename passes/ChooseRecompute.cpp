//===- ChooseRecompute.cpp - How much to recompute under a memory cap -----===//
//
// Asks what each policy's least peak is, which is fast, to find the fewest blocks that fit; then
// schedules the few candidates that do, and takes the fastest. Optimizer state goes to the host
// where that may be decided and nothing else fits.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step.h"
#include "fsdp/Transforms/Decisions.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "passes/LeastPeak.h"
#include "passes/Pipelines.h"
#include "passes/SearchOptions.h"
#include "llvm/Support/FormatVariadic.h"

namespace fsdp {
#define GEN_PASS_DEF_CHOOSERECOMPUTE
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// A policy for the first blocks, cheap everywhere else; and whether optimizer state is offloaded.
struct Candidate {
  RecomputePolicy policy = RecomputePolicy::Cheap;
  int64_t numBlocks = 0;
  OffloadPolicy offload = OffloadPolicy::None;
  RecomputeReason reason = RecomputeReason::Time;
};

struct Prediction {
  Candidate candidate;
  double makespanNs, computeNs;
};

struct ChooseRecomputePass
    : public SearchingPass<fsdp::impl::ChooseRecomputeBase<ChooseRecomputePass>> {
  using SearchingPass::SearchingPass;

  void runOnOperation() override;

private:
  void freeGroups(Step &step);
  void restoreRequests(Step &step);
  /// `whyCheap`: why nothing is searched for; empty: something is.
  void recordRecomputation(const Candidate &chosen, StringRef whyCheap);
  void offloadStates(Step &step);
  std::string describe(const Candidate &candidate) const;
  RecomputeOptions getOptions(const Candidate &candidate) const;
  std::optional<int64_t> findPeak(const Candidate &candidate);
  std::optional<int64_t> findFewestBlocks(Candidate candidate, int64_t capBytes);
  std::optional<Prediction> predict(const Candidate &candidate);
  std::optional<Prediction> predictFitting(Candidate candidate, int64_t capBytes);
  std::optional<Prediction> predictBest(OffloadPolicy offload, int64_t capBytes);
  Candidate choose(int64_t capBytes);
  Candidate findLeast();
  void announce(const Prediction &chosen);

  int64_t numBlocks = 0;                  // of which the policy is free
  SmallVector<RecomputePolicyAttr> asked; // by group
  SmallVector<GroupOp> freed;             // whose policy is left to this pass
  bool isFitting = false;                 // a schedule fits the memory cap
  std::optional<ScheduleSearch> search;
};

} // namespace

/// Why optimizer state goes to the host where that may be decided.
static constexpr StringLiteral kWhyOffloaded =
    "no schedule with the optimizer state on the device fits the memory cap";

RecomputeOptions ChooseRecomputePass::getOptions(const Candidate &candidate) const {
  RecomputeOptions options;
  options.policy = candidate.policy;
  if (candidate.policy >= RecomputePolicy::Selected)
    options.firstBlocks = candidate.numBlocks;
  return options;
}

std::optional<int64_t> ChooseRecomputePass::findPeak(const Candidate &candidate) {
  OwningOpRef<ModuleOp> changed = getOperation().clone();
  RecomputeOptions options = getOptions(candidate);
  return findLeastPeak(*changed, search->getCosts(), &options, candidate.offload);
}

/// The fewest first blocks with which the step's least peak fits. Each more lowers it in practice:
/// where it does not, more are taken than need be, and what is taken fits all the same.
std::optional<int64_t> ChooseRecomputePass::findFewestBlocks(Candidate candidate,
                                                             int64_t capBytes) {
  auto fits = [&](int64_t count) {
    candidate.numBlocks = count;
    std::optional<int64_t> peak = findPeak(candidate);
    return peak && *peak <= capBytes;
  };
  if (numBlocks == 0 || !fits(numBlocks))
    return std::nullopt;
  int64_t low = 0, high = numBlocks; // high fits
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

/// Schedules the step; none where nothing fits.
std::optional<Prediction> ChooseRecomputePass::predict(const Candidate &candidate) {
  ScopedDiagnosticHandler quiet(&getContext(), [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> changed = getOperation().clone();
  PassManager manager(&getContext());
  addRecompute(manager, getOptions(candidate));
  manager.addPass(createAccumulateGradients());
  manager.addPass(createInsertCollectives());
  manager.addPass(createOffloadOptimizer({.offload = candidate.offload}));
  if (failed(manager.run(*changed)))
    return std::nullopt;
  FailureOr<std::optional<FoundSchedule>> found = search->run(*changed);
  if (failed(found) || !*found)
    return std::nullopt;
  double computeNs = -(*found)->step.exposedCopyNs;
  for (const schedule::Operation &operation : (*found)->step.problem.operations)
    computeNs += operation.durationNs;
  return Prediction{candidate, (*found)->makespanNs, computeNs};
}

/// The fewest blocks whose schedule fits, holes of its arena included: a few more than the least
/// peak allows may be needed.
std::optional<Prediction> ChooseRecomputePass::predictFitting(Candidate candidate,
                                                              int64_t capBytes) {
  std::optional<int64_t> fewest = findFewestBlocks(candidate, capBytes);
  if (!fewest)
    return std::nullopt;
  for (int64_t count : {*fewest, (*fewest + numBlocks) / 2, numBlocks}) {
    candidate.numBlocks = count;
    if (std::optional<Prediction> found = predict(candidate))
      return found;
    if (count == numBlocks)
      break;
  }
  return std::nullopt;
}

std::optional<Prediction> ChooseRecomputePass::predictBest(OffloadPolicy offload,
                                                           int64_t capBytes) {
  // So little exposed that repeating work cannot pay; and what a mix must gain to be worth it.
  constexpr double kEnough = 1.01, kWorthIt = 0.99;
  std::optional<Prediction> best;
  auto take = [&](std::optional<Prediction> found) {
    if (found && (!best || found->makespanNs < kWorthIt * best->makespanNs))
      best = found;
  };
  Candidate cheap{.offload = offload};
  std::optional<int64_t> cheapPeak = findPeak(cheap);
  if (cheapPeak && *cheapPeak <= capBytes)
    take(predict(cheap));
  auto candidate = [&](RecomputePolicy policy, int64_t count, RecomputeReason reason) {
    return Candidate{policy, count, offload, reason};
  };
  if (!best) {
    for (RecomputePolicy policy : {RecomputePolicy::Selected, RecomputePolicy::Full})
      take(predictFitting(candidate(policy, 0, RecomputeReason::Memory), capBytes));
  } else if (best->makespanNs > kEnough * best->computeNs && numBlocks > 0) {
    for (int64_t count : {(numBlocks + 1) / 2, numBlocks})
      take(predict(candidate(RecomputePolicy::Selected, count, RecomputeReason::Time)));
  }
  return best;
}

Candidate ChooseRecomputePass::choose(int64_t capBytes) {
  bool isOffloaded = offload == OffloadPolicy::All;
  std::optional<Prediction> best =
      predictBest(isOffloaded ? OffloadPolicy::All : OffloadPolicy::None, capBytes);
  if (!best && offload == OffloadPolicy::Auto)
    best = predictBest(OffloadPolicy::All, capBytes);
  if (!best)
    return findLeast();
  isFitting = true;
  announce(*best);
  return best->candidate;
}

/// Where nothing fits: what needs the least, so that the refusal names that.
Candidate ChooseRecomputePass::findLeast() {
  Candidate least;
  std::optional<int64_t> leastBytes;
  for (RecomputePolicy policy :
       {RecomputePolicy::Cheap, RecomputePolicy::Selected, RecomputePolicy::Full}) {
    Candidate candidate{policy, numBlocks,
                        offload == OffloadPolicy::None ? OffloadPolicy::None : OffloadPolicy::All,
                        RecomputeReason::Memory};
    std::optional<int64_t> bytes = findPeak(candidate);
    if (bytes && (!leastBytes || *bytes < *leastBytes)) {
      least = candidate;
      leastBytes = bytes;
    }
  }
  return least;
}

/// How many blocks are computed again, and what for.
std::string ChooseRecomputePass::describe(const Candidate &candidate) const {
  if (candidate.policy == RecomputePolicy::Cheap)
    return isFitting ? "the step fits the memory cap without further recomputation"
                     : "nothing fits the memory cap, and this needs the least";
  std::string text =
      llvm::formatv("the backward recomputes {0} of {1} blocks, policy {2}", candidate.numBlocks,
                    numBlocks, stringifyRecomputePolicy(candidate.policy));
  if (!isFitting)
    return text + ": nothing fits the memory cap, and this needs the least";
  return text + (candidate.reason == RecomputeReason::Memory
                     ? ": the memory cap asks for as many"
                     : ": the memory that this leaves to gathers saves more time than "
                       "recomputing takes");
}

void ChooseRecomputePass::announce(const Prediction &chosen) {
  bool isCheap = chosen.candidate.policy == RecomputePolicy::Cheap;
  int64_t count = isCheap ? 0 : chosen.candidate.numBlocks;
  StringRef word = stringifyRecomputePolicy(chosen.candidate.policy);
  ModuleOp module = getOperation();
  remark::analysis(module.getLoc(), remark::RemarkOpts::name("choice").category(getArgument()))
      << remark::metric("Policy", word) << remark::metric("RecomputedBlocks", count)
      << remark::metric("Blocks", numBlocks) << remark::metric("PredictedNs", chosen.makespanNs);
  if (!isCheap)
    module.emitRemark(describe(chosen.candidate));
  if (offload == OffloadPolicy::Auto && chosen.candidate.offload == OffloadPolicy::All)
    module.emitRemark("optimizer state is on the host between updates: ") << kWhyOffloaded;
}

/// Until restoreRequests() groups of which the policy may be chosen say nothing of it, and the
/// others what the user does of them or of the step.
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
    numBlocks += group.isBlock() && !group.getRecompute();
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

/// Why `auto` is a name of `cheap` where nothing is searched for.
static StringRef explainCheap(Step &step, bool hasCap) {
  if (!hasCap)
    return "without a memory cap auto means cheap";
  if (!step.isSharded())
    return "where parameters are not sharded auto means cheap";
  return "for the root group, which is no block, auto means cheap";
}

void ChooseRecomputePass::recordRecomputation(const Candidate &chosen, StringRef whyCheap) {
  for (GroupOp group : freed) {
    // Of groups that say nothing `auto` of the whole step is the request.
    if (!whyCheap.empty() && group.getRecompute() != RecomputePolicy::Auto)
      continue;
    std::string reason = whyCheap.empty() ? describe(chosen) : whyCheap.str();
    RecomputePolicy policy = group.getRecomputed().value_or(RecomputePolicy::None);
    recordDecision(group,
                   {Subject::Recomputed,
                    "recomputes by policy " + stringifyRecomputePolicy(policy).str(), reason},
                   getArgument());
  }
}

/// Of groups that do not say where it is.
void ChooseRecomputePass::offloadStates(Step &step) {
  for (GroupOp group : step.groups) {
    if (group.getOffloadOptimizer() || step.getTrained(group).empty())
      continue;
    group.setOptimizerState(StatePlace::Host);
    if (offload == OffloadPolicy::Auto)
      recordDecision(
          group,
          {Subject::OptimizerState, "has its optimizer state on the host", kWhyOffloaded.str()},
          getArgument());
  }
}

void ChooseRecomputePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(expectPhase(module, getArgument(), ModulePhase::Captured)))
    return signalPassFailure();
  FailureOr<Step> step = Step::collect(module);
  if (failed(step))
    return signalPassFailure();
  FailureOr<ScheduleSearch> loaded = ScheduleSearch::load(module, getSearchFlags());
  if (failed(loaded))
    return signalPassFailure();
  search = std::move(*loaded);
  numBlocks = 0;
  isFitting = false;
  asked.clear();
  freed.clear();
  freeGroups(*step);
  std::optional<int64_t> capBytes = search->getArenaCapBytes(module);
  bool isDecided =
      capBytes && step->isSharded() && (numBlocks > 0 || offload == OffloadPolicy::Auto);
  if (!isDecided && offload == OffloadPolicy::Auto) {
    module.emitError("offload-optimizer=auto decides nothing on ")
        << step->getWorldSize() << " ranks with " << (capBytes ? "a" : "no")
        << " memory-cap; say all or none";
    return signalPassFailure();
  }
  Candidate chosen;
  if (isDecided) {
    chosen = choose(*capBytes);
  } else {
    chosen.policy = std::min<RecomputePolicy>(policy, RecomputePolicy::Cheap);
    for (GroupOp group : freed)
      group.setRecompute(RecomputePolicy::Cheap);
  }
  if (chosen.offload == OffloadPolicy::All)
    offloadStates(*step);
  OpPassManager recompute(ModuleOp::getOperationName());
  addRecompute(recompute, getOptions(chosen));
  if (failed(runPipeline(recompute, module)))
    return signalPassFailure();
  restoreRequests(*step);
  recordRecomputation(chosen, isDecided ? "" : explainCheap(*step, capBytes.has_value()));
  if (isDecided && numBlocks > 0) {
    auto said = module->getAttrOfType<RecomputeAttr>(FsdpDialect::getRecomputeAttrName());
    module->setAttr(
        FsdpDialect::getRecomputeAttrName(),
        RecomputeAttr::get(&getContext(), said.getPolicy(), said.getBlocks(), chosen.reason));
  }
}
