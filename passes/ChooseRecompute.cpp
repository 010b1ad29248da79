//===- ChooseRecompute.cpp - How much to recompute under a memory cap -----===//
//
// Recomputes more and more, or keeps activations on the host, in steps that take the least time for
// each byte saved first (RecomputeLadder.h). Least peaks, which are fast to find, tell the fewest
// steps that fit. Then it schedules the few candidates that do, and takes the fastest. Optimizer
// state goes to the host where that may be decided and nothing fits without, or the step is faster
// with it there.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step.h"
#include "fsdp/Transforms/Decisions.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "passes/KernelChoice.h"
#include "passes/LeastPeak.h"
#include "passes/Pipelines.h"
#include "passes/RecomputeCandidate.h"
#include "passes/SearchOptions.h"

namespace fsdp {
#define GEN_PASS_DEF_CHOOSERECOMPUTE
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

using Candidate = RecomputeCandidate;

namespace {

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
  void recordActivations(Step &step, const Candidate &chosen);
  void offloadStates(Step &step, StringRef why);
  /// Activations that a search decides on are those that its steps mark.
  OffloadChoices getOffload(const Candidate &candidate) const {
    return {candidate.offload,
            activations == OffloadPolicy::All ? OffloadPolicy::All : OffloadPolicy::None};
  }
  /// The first steps of the ladder.
  SmallVector<RecomputeStep> climb(size_t count) const {
    return SmallVector<RecomputeStep>(ladder.take_front(count));
  }
  StepChoices getChoices(const Candidate &candidate) const {
    return {.recompute = RecomputeOptions(), .offload = getOffload(candidate), .fusion = kernels};
  }
  std::optional<int64_t> findPeak(const Candidate &candidate);
  std::optional<size_t> findFewestSteps(Candidate candidate, int64_t capBytes);
  void takeBack(Candidate &candidate, int64_t capBytes);
  std::optional<Prediction> predict(const Candidate &candidate);
  std::optional<Prediction> predictFitting(Candidate candidate, int64_t capBytes);
  std::optional<Prediction> predictBest(OffloadPolicy offload, int64_t capBytes);
  LogicalResult findLadders();
  std::optional<Prediction> predictBest(int64_t capBytes);
  FailureOr<Candidate> choose(int64_t capBytes);
  Candidate findLeast();
  void announce(const Prediction &chosen);

  int64_t numBlocks = 0; // of which the policy is free
  /// Where activations may be offloaded there are several: without that, and by the policy of the
  /// blocks of which the forward hides the copies.
  SmallVector<SmallVector<RecomputeStep>> ladders;
  ArrayRef<RecomputeStep> ladder;         // the one that is tried
  SmallVector<RecomputePolicyAttr> asked; // by group
  SmallVector<GroupOp> freed;             // whose policy is left to this pass
  FusionChoice kernels = FusionChoice::Off; // with which the step is tried
  bool isFitting = false;                 // a schedule fits the memory cap
  std::optional<ScheduleSearch> search;
};

} // namespace

/// What another choice must gain to be worth it, as a ratio of times.
static constexpr double kWorthIt = 0.99;

/// Why optimizer state goes to the host where that may be decided.
static constexpr StringLiteral
    kForMemory = "no schedule with the optimizer state on the device fits the memory cap",
    kForTime = "the memory that this leaves to activations saves more time than the copies take";

std::optional<int64_t> ChooseRecomputePass::findPeak(const Candidate &candidate) {
  OwningOpRef<ModuleOp> changed = getOperation().clone();
  applySteps(*changed, candidate.steps);
  return findLeastPeak(*changed, search->getCosts(), getChoices(candidate));
}

/// The fewest steps with which the step's least peak fits. Each more lowers it in practice: where
/// it does not, more are taken than need be, and what is taken fits all the same.
std::optional<size_t> ChooseRecomputePass::findFewestSteps(Candidate candidate, int64_t capBytes) {
  auto fits = [&](size_t count) {
    candidate.steps = climb(count);
    std::optional<int64_t> peak = findPeak(candidate);
    return peak && *peak <= capBytes;
  };
  if (ladder.empty() || !fits(ladder.size()))
    return std::nullopt;
  size_t low = 0, high = ladder.size(); // high fits
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

/// The last step may save more than was missing: takes back earlier ones that the step fits
/// without, first those that cost the most time.
void ChooseRecomputePass::takeBack(Candidate &candidate, int64_t capBytes) {
  // Each try computes a peak. Blocks are often alike: if the step does not fit without one of them,
  // it does not without another.
  constexpr unsigned kFailures = 3;
  SmallVector<RecomputeStep> byTime = candidate.steps;
  llvm::stable_sort(
      byTime, [](const RecomputeStep &a, const RecomputeStep &b) { return a.addedNs > b.addedNs; });
  unsigned numFailed = 0;
  for (const RecomputeStep &step : byTime) {
    auto isIt = [&](const RecomputeStep &other) {
      return other.group == step.group && other.policy == step.policy &&
             other.isOffloaded == step.isOffloaded;
    };
    Candidate without = candidate;
    llvm::erase_if(without.steps, isIt);
    std::optional<int64_t> peak = findPeak(without);
    if (peak && *peak <= capBytes)
      candidate = without;
    else if (++numFailed == kFailures)
      return;
  }
}

/// Schedules the step; none where nothing fits.
std::optional<Prediction> ChooseRecomputePass::predict(const Candidate &candidate) {
  ScopedDiagnosticHandler quiet(&getContext(), [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> changed = getOperation().clone();
  applySteps(*changed, candidate.steps);
  PassManager manager(&getContext());
  addSharding(manager, *changed, getChoices(candidate));
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

/// The fewest steps whose schedule fits, holes of its arena included: a few more than the least
/// peak allows may be needed.
std::optional<Prediction> ChooseRecomputePass::predictFitting(Candidate candidate,
                                                              int64_t capBytes) {
  std::optional<size_t> fewest = findFewestSteps(candidate, capBytes);
  if (!fewest)
    return std::nullopt;
  candidate.steps = climb(*fewest);
  takeBack(candidate, capBytes);
  if (std::optional<Prediction> found = predict(candidate))
    return found;
  for (size_t count : {*fewest, (*fewest + ladder.size()) / 2, ladder.size()}) {
    candidate.steps = climb(count);
    if (std::optional<Prediction> found = predict(candidate))
      return found;
    if (count == ladder.size())
      break;
  }
  return std::nullopt;
}

std::optional<Prediction> ChooseRecomputePass::predictBest(OffloadPolicy offload,
                                                           int64_t capBytes) {
  constexpr double kEnough = 1.01; // so little exposed that repeating work cannot pay
  std::optional<Prediction> best;
  auto take = [&](std::optional<Prediction> found) {
    if (found && (!best || found->makespanNs < kWorthIt * best->makespanNs))
      best = found;
  };
  Candidate cheap{.offload = offload};
  std::optional<int64_t> cheapPeak = findPeak(cheap);
  if (cheapPeak && *cheapPeak <= capBytes)
    take(predict(cheap));
  if (!best) {
    for (ArrayRef<RecomputeStep> tried : ladders) {
      ladder = tried;
      take(predictFitting({{}, offload, RecomputeReason::Memory}, capBytes));
    }
    return best;
  }
  ladder = ladders.front();
  const auto numSelected = static_cast<size_t>(llvm::count_if(
      ladder, [](RecomputeStep step) { return step.policy == RecomputePolicy::Selected; }));
  if (best->makespanNs > kEnough * best->computeNs && numSelected > 0)
    for (size_t count : {(numSelected + 1) / 2, numSelected})
      take(predict({climb(count), offload, RecomputeReason::Time}));
  return best;
}

LogicalResult ChooseRecomputePass::findLadders() {
  SmallVector<std::optional<RecomputePolicy>> offloaded = {std::nullopt};
  if (activations == OffloadPolicy::Auto)
    offloaded.append({RecomputePolicy::Cheap, RecomputePolicy::Selected, RecomputePolicy::Full});
  ladders.clear();
  for (std::optional<RecomputePolicy> policy : offloaded) {
    FailureOr<SmallVector<RecomputeStep>> found =
        findRecomputeLadder(getOperation(), search->getCosts(), kernels, policy);
    if (failed(found))
      return failure();
    ladders.push_back(std::move(*found));
  }
  return success();
}

std::optional<Prediction> ChooseRecomputePass::predictBest(int64_t capBytes) {
  bool isOffloaded = offload == OffloadPolicy::All;
  std::optional<Prediction> best =
      predictBest(isOffloaded ? OffloadPolicy::All : OffloadPolicy::None, capBytes);
  // To free the state's memory costs little where computation hides the copies.
  if (offload == OffloadPolicy::Auto &&
      (!best || best->candidate.reason == RecomputeReason::Memory)) {
    std::optional<Prediction> offloaded = predictBest(OffloadPolicy::All, capBytes);
    if (offloaded && (!best || offloaded->makespanNs < kWorthIt * best->makespanNs)) {
      offloaded->candidate.whyOffloaded = best ? kForTime : kForMemory;
      best = offloaded;
    }
  }
  return best;
}

FailureOr<Candidate> ChooseRecomputePass::choose(int64_t capBytes) {
  for (FusionChoice choice : listKernelChoices(fusion, /*hasCap=*/true)) {
    kernels = choice;
    if (failed(findLadders()))
      return failure();
    if (std::optional<Prediction> best = predictBest(capBytes)) {
      isFitting = true;
      announce(*best);
      return best->candidate;
    }
  }
  return findLeast();
}

/// Where nothing fits: what needs the least, so that the refusal names that.
Candidate ChooseRecomputePass::findLeast() {
  Candidate least;
  std::optional<int64_t> leastBytes;
  const auto choices = listKernelChoices(fusion, /*hasCap=*/true);
  for (FusionChoice choice : llvm::reverse(choices)) {
    kernels = choice;
    if (failed(findLadders()))
      continue;
    // Nothing comes first: it is named if the rest saves nothing.
    SmallVector<SmallVector<RecomputeStep>> candidates(1);
    llvm::append_range(candidates, ladders);
    for (SmallVector<RecomputeStep> &steps : candidates) {
      Candidate candidate{steps, OffloadPolicy::None, RecomputeReason::Memory};
      if (offload != OffloadPolicy::None)
        candidate.offload = OffloadPolicy::All;
      if (offload == OffloadPolicy::Auto)
        candidate.whyOffloaded = kForMemory;
      std::optional<int64_t> bytes = findPeak(candidate);
      if (bytes && (!leastBytes || *bytes < *leastBytes)) {
        least = candidate;
        leastBytes = bytes;
      }
    }
  }
  return least;
}

void ChooseRecomputePass::announce(const Prediction &chosen) {
  ModuleOp module = getOperation();
  RecomputeAttr attr = chosen.candidate.getAttr(&getContext());
  remark::analysis(module.getLoc(), remark::RemarkOpts::name("choice").category(getArgument()))
      << remark::metric("Policy", stringifyRecomputePolicy(attr.getPolicy()))
      << remark::metric("RecomputedBlocks", attr.getBlocks()) << remark::metric("Blocks", numBlocks)
      << remark::metric("OffloadedBlocks", chosen.candidate.countOffloaded())
      << remark::metric("PredictedNs", chosen.makespanNs);
  if (!chosen.candidate.steps.empty())
    module.emitRemark(chosen.candidate.describe(numBlocks, isFitting));
  if (!chosen.candidate.whyOffloaded.empty())
    module.emitRemark("optimizer state is on the host between updates: ")
        << chosen.candidate.whyOffloaded;
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
    std::string reason = whyCheap.empty() ? chosen.describe(numBlocks, isFitting) : whyCheap.str();
    RecomputePolicy policy = group.getRecomputed().value_or(RecomputePolicy::None);
    recordDecision(group,
                   {Subject::Recomputed,
                    "recomputes by policy " + stringifyRecomputePolicy(policy).str(), reason},
                   getArgument());
  }
}

/// Where steps put the activations of groups, and why.
void ChooseRecomputePass::recordActivations(Step &step, const Candidate &chosen) {
  for (GroupOp group : step.groups)
    if (group.areActivationsOnHost())
      recordDecision(group,
                     {Subject::Activations, "keeps its activations on the host",
                      chosen.describe(numBlocks, isFitting)},
                     getArgument());
}

/// Of groups that do not say where it is.
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
  isFitting = false;
  asked.clear();
  freed.clear();
  freeGroups(*step);
  numBlocks = static_cast<int64_t>(collectFreeBlocks(module).size());
  std::optional<int64_t> capBytes = search->getArenaCapBytes(module);
  const bool isAuto = offload == OffloadPolicy::Auto || activations == OffloadPolicy::Auto;
  bool isDecided = capBytes && step->isSharded() && (numBlocks > 0 || isAuto);
  if (!isDecided && isAuto) {
    module.emitError(offload == OffloadPolicy::Auto ? "offload-optimizer" : "offload-activations")
        << "=auto decides nothing on " << step->getWorldSize() << " ranks with "
        << (capBytes ? "a" : "no") << " memory-cap; say all or none";
    return signalPassFailure();
  }
  Candidate chosen;
  RecomputeOptions options;
  if (isDecided) {
    FailureOr<Candidate> found = choose(*capBytes);
    if (failed(found))
      return signalPassFailure();
    chosen = *found;
    applySteps(module, chosen.steps);
    recordActivations(*step, chosen);
  } else {
    options.policy = std::min<RecomputePolicy>(policy, RecomputePolicy::Cheap);
    for (GroupOp group : freed)
      group.setRecompute(RecomputePolicy::Cheap);
  }
  if (chosen.offload == OffloadPolicy::All)
    offloadStates(*step, chosen.whyOffloaded);
  OpPassManager recompute(ModuleOp::getOperationName());
  addRecompute(recompute, options);
  if (failed(runPipeline(recompute, module)))
    return signalPassFailure();
  restoreRequests(*step);
  recordRecomputation(chosen, isDecided ? "" : explainCheap(*step, capBytes.has_value()));
  if (isDecided && numBlocks > 0)
    module->setAttr(FsdpDialect::getRecomputeAttrName(), chosen.getAttr(&getContext()));
}
