//===- ChooseRecompute.cpp - How much to recompute under a memory cap -----===//
//
// Recomputes more and more, in steps that take the least time for each byte saved first
// (RecomputeLadder.h). Least peaks, which are fast to find, tell the fewest steps that fit. Then it
// schedules the few candidates that do, and takes the fastest. Optimizer state goes to the host
// where that may be decided and nothing fits without, or the step is faster with it there.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step.h"
#include "fsdp/Transforms/Decisions.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "passes/LeastPeak.h"
#include "passes/Pipelines.h"
#include "passes/RecomputeLadder.h"
#include "passes/SearchOptions.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

namespace fsdp {
#define GEN_PASS_DEF_CHOOSERECOMPUTE
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// Steps of the ladder, and whether optimizer state is offloaded.
struct Candidate {
  SmallVector<RecomputeStep> steps = {};
  OffloadPolicy offload = OffloadPolicy::None;
  RecomputeReason reason = RecomputeReason::Time;
  StringRef whyOffloaded = {}; // of optimizer state, where that is decided
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
  void offloadStates(Step &step, StringRef why);
  std::string describe(const Candidate &candidate) const;
  /// The first steps of the ladder.
  SmallVector<RecomputeStep> climb(size_t count) const {
    return SmallVector<RecomputeStep>(ArrayRef(ladder).take_front(count));
  }
  /// How many blocks each policy has behind the candidate's steps.
  std::map<RecomputePolicy, int64_t> countBlocks(const Candidate &candidate) const;
  RecomputeAttr getAttr(const Candidate &candidate);
  StepChoices getChoices(const Candidate &candidate) const {
    return {.recompute = RecomputeOptions(), .offload = candidate.offload, .fusion = fusion};
  }
  std::optional<int64_t> findPeak(const Candidate &candidate);
  std::optional<size_t> findFewestSteps(Candidate candidate, int64_t capBytes);
  void takeBack(Candidate &candidate, int64_t capBytes);
  std::optional<Prediction> predict(const Candidate &candidate);
  std::optional<Prediction> predictFitting(Candidate candidate, int64_t capBytes);
  std::optional<Prediction> predictBest(OffloadPolicy offload, int64_t capBytes);
  Candidate choose(int64_t capBytes);
  Candidate findLeast();
  void announce(const Prediction &chosen);

  int64_t numBlocks = 0; // of which the policy is free
  SmallVector<RecomputeStep> ladder;
  SmallVector<RecomputePolicyAttr> asked; // by group
  SmallVector<GroupOp> freed;             // whose policy is left to this pass
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

std::map<RecomputePolicy, int64_t>
ChooseRecomputePass::countBlocks(const Candidate &candidate) const {
  DenseMap<StringAttr, RecomputePolicy> policyOf;
  for (const RecomputeStep &step : candidate.steps)
    policyOf[step.group] = step.policy;
  std::map<RecomputePolicy, int64_t> counts;
  for (auto [group, policy] : policyOf)
    ++counts[policy];
  return counts;
}

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
      return other.group == step.group && other.policy == step.policy;
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
  if (!best)
    return predictFitting({{}, offload, RecomputeReason::Memory}, capBytes);
  const auto numSelected = static_cast<size_t>(llvm::count_if(
      ladder, [](RecomputeStep step) { return step.policy == RecomputePolicy::Selected; }));
  if (best->makespanNs > kEnough * best->computeNs && numSelected > 0)
    for (size_t count : {(numSelected + 1) / 2, numSelected})
      take(predict({climb(count), offload, RecomputeReason::Time}));
  return best;
}

Candidate ChooseRecomputePass::choose(int64_t capBytes) {
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
  for (size_t count : {size_t(0), ladder.size()}) {
    Candidate candidate{climb(count), OffloadPolicy::None, RecomputeReason::Memory};
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
  return least;
}

/// How many blocks are computed again, and what for.
std::string ChooseRecomputePass::describe(const Candidate &candidate) const {
  if (candidate.steps.empty())
    return isFitting ? "the step fits the memory cap without further recomputation"
                     : "nothing fits the memory cap, and this needs the least";
  std::string policies;
  int64_t numRecomputed = 0;
  std::map<RecomputePolicy, int64_t> counts = countBlocks(candidate);
  for (auto [policy, count] : counts) {
    if (counts.size() > 1)
      policies += (policies.empty() ? "" : " and ") + std::to_string(count) + " by ";
    policies += "policy " + stringifyRecomputePolicy(policy).str();
    numRecomputed += count;
  }
  std::string text = llvm::formatv("the backward recomputes {0} of {1} blocks, {2}", numRecomputed,
                                   numBlocks, policies);
  if (!isFitting)
    return text + ": nothing fits the memory cap, and this needs the least";
  return text + (candidate.reason == RecomputeReason::Memory
                     ? ": the memory cap asks for as many"
                     : ": the memory that this leaves to gathers saves more time than "
                       "recomputing takes");
}

/// For several policies at once the attribute says `auto`; each group says which one it follows.
RecomputeAttr ChooseRecomputePass::getAttr(const Candidate &candidate) {
  RecomputePolicy policy = RecomputePolicy::Cheap;
  int64_t numRecomputed = 0;
  for (auto [own, count] : countBlocks(candidate)) {
    policy = numRecomputed == 0 ? own : RecomputePolicy::Auto;
    numRecomputed += count;
  }
  return RecomputeAttr::get(&getContext(), policy, numRecomputed, candidate.reason);
}

void ChooseRecomputePass::announce(const Prediction &chosen) {
  ModuleOp module = getOperation();
  RecomputeAttr attr = getAttr(chosen.candidate);
  remark::analysis(module.getLoc(), remark::RemarkOpts::name("choice").category(getArgument()))
      << remark::metric("Policy", stringifyRecomputePolicy(attr.getPolicy()))
      << remark::metric("RecomputedBlocks", attr.getBlocks()) << remark::metric("Blocks", numBlocks)
      << remark::metric("PredictedNs", chosen.makespanNs);
  if (!chosen.candidate.steps.empty())
    module.emitRemark(describe(chosen.candidate));
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
    std::string reason = whyCheap.empty() ? describe(chosen) : whyCheap.str();
    RecomputePolicy policy = group.getRecomputed().value_or(RecomputePolicy::None);
    recordDecision(group,
                   {Subject::Recomputed,
                    "recomputes by policy " + stringifyRecomputePolicy(policy).str(), reason},
                   getArgument());
  }
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
  bool isDecided =
      capBytes && step->isSharded() && (numBlocks > 0 || offload == OffloadPolicy::Auto);
  if (!isDecided && offload == OffloadPolicy::Auto) {
    module.emitError("offload-optimizer=auto decides nothing on ")
        << step->getWorldSize() << " ranks with " << (capBytes ? "a" : "no")
        << " memory-cap; say all or none";
    return signalPassFailure();
  }
  Candidate chosen;
  RecomputeOptions options;
  ladder.clear();
  if (isDecided) {
    FailureOr<SmallVector<RecomputeStep>> found =
        findRecomputeLadder(module, search->getCosts(), fusion);
    if (failed(found))
      return signalPassFailure();
    ladder = std::move(*found);
    chosen = choose(*capBytes);
    applySteps(module, chosen.steps);
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
    module->setAttr(FsdpDialect::getRecomputeAttrName(), getAttr(chosen));
}
