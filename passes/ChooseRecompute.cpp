//===- ChooseRecompute.cpp - How much to recompute ------------------------===//
//
// Without a memory cap, compares what is cheap with nothing, which has to fit the device.
//
// Under a cap, recomputes more and more, or keeps activations on the host, in steps that take the
// least time for each byte saved first (RecomputeLadder.h). Least peaks, which are fast to find,
// tell the fewest steps that fit. Then it schedules the few candidates that do, and takes the
// fastest. Optimizer state goes to the host where that may be decided and nothing fits without, or
// the step is faster with it there.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step.h"
#include "fsdp/Analysis/StepMemory.h"
#include "fsdp/CostModel/Temporaries.h"
#include "fsdp/Transforms/Decisions.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "passes/KernelChoice.h"
#include "passes/LeastPeak.h"
#include "passes/Pipelines.h"
#include "passes/RecomputeCandidate.h"
#include "passes/SearchOptions.h"
#include "llvm/Support/FormatVariadic.h"

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
  int64_t arenaBytes = 0; // asked for without a cap only
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
  /// What the groups follow that say nothing: the root computes nothing again where no block does.
  RecomputeOptions getRecomputation(const Candidate &candidate) const {
    RecomputeOptions options;
    options.policy =
        candidate.steps.empty() && numBlocks > 0 ? RecomputePolicy::None : RecomputePolicy::Cheap;
    return options;
  }
  StepChoices getChoices(const Candidate &candidate) const {
    return {.recompute = getRecomputation(candidate),
            .offload = getOffload(candidate),
            .fusion = kernels};
  }
  SmallVector<RecomputeStep> listCheapSteps();
  std::optional<int64_t> findPeak(const Candidate &candidate);
  std::optional<size_t> findFewestSteps(Candidate candidate, int64_t capBytes, size_t low);
  void takeBack(Candidate &candidate, int64_t capBytes, size_t low);
  std::optional<Prediction> predict(const Candidate &candidate);
  std::optional<Prediction> predictFitting(Candidate candidate, int64_t capBytes, size_t low);
  std::optional<Prediction> predictBest(OffloadPolicy offload, int64_t capBytes);
  LogicalResult findLadders();
  std::optional<Prediction> predictBest(int64_t capBytes);
  FailureOr<Candidate> choose(int64_t capBytes);
  std::optional<int64_t> getDeviceBytes();
  Candidate chooseWithoutCap(int64_t deviceBytes);
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
  bool hasCap = false;
  bool isFitting = false; // a schedule fits the memory cap
  std::optional<ScheduleSearch> search;
};

} // namespace

/// What another choice must gain to be worth it, as a ratio of times.
static constexpr double kWorthIt = 0.99;
/// The same of keeping what is cheap to recompute: bytes that nobody may ask for.
static constexpr double kWorthKeeping = 0.995;

/// Why optimizer state goes to the host where that may be decided.
static constexpr StringLiteral
    kForMemory = "no schedule with the optimizer state on the device fits the memory cap",
    kForTime = "the memory that this leaves to activations saves more time than the copies take";

std::optional<int64_t> ChooseRecomputePass::findPeak(const Candidate &candidate) {
  OwningOpRef<ModuleOp> changed = getOperation().clone();
  applySteps(*changed, candidate.steps);
  return findLeastPeak(*changed, search->getCosts(), getChoices(candidate));
}

/// The fewest steps, more than `low`, with which the step's least peak fits. Each more lowers it in
/// practice: where it does not, more are taken than need be, and what is taken fits all the same.
std::optional<size_t> ChooseRecomputePass::findFewestSteps(Candidate candidate, int64_t capBytes,
                                                           size_t low) {
  auto fits = [&](size_t count) {
    candidate.steps = climb(count);
    std::optional<int64_t> peak = findPeak(candidate);
    return peak && *peak <= capBytes;
  };
  if (ladder.size() <= low || !fits(ladder.size()))
    return std::nullopt;
  size_t high = ladder.size(); // fits
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

/// The last step may save more than was missing: takes back earlier ones, behind the first `low`,
/// that the step fits without, first those that cost the most time.
void ChooseRecomputePass::takeBack(Candidate &candidate, int64_t capBytes, size_t low) {
  // Each try computes a peak. Blocks are often alike: if the step does not fit without one of them,
  // it does not without another.
  constexpr unsigned kFailures = 3;
  SmallVector<RecomputeStep> byTime(ArrayRef(candidate.steps).drop_front(low));
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
  Prediction prediction{candidate, (*found)->makespanNs, computeNs};
  if (!hasCap) {
    FailureOr<StepMemory> memory = StepMemory::build(*changed, ModulePhase::Scheduled);
    if (failed(memory))
      return std::nullopt;
    prediction.arenaBytes = planArena(memory->ranges.getRanges()).arenaBytes;
  }
  return prediction;
}

/// The fewest steps whose schedule fits, holes of its arena included: a few more than the least
/// peak allows may be needed.
std::optional<Prediction> ChooseRecomputePass::predictFitting(Candidate candidate, int64_t capBytes,
                                                              size_t low) {
  std::optional<size_t> fewest = findFewestSteps(candidate, capBytes, low);
  if (!fewest)
    return std::nullopt;
  candidate.steps = climb(*fewest);
  takeBack(candidate, capBytes, low);
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

/// Why nothing is computed again.
static std::string explainKept(double cheapNs, double keptNs, StringRef limit) {
  return llvm::formatv("with nothing computed again the step takes {0:F1} % less than by policy "
                       "cheap, and fits {1}",
                       100 * (1 - keptNs / cheapNs), limit);
}

std::optional<Prediction> ChooseRecomputePass::predictBest(OffloadPolicy offload,
                                                           int64_t capBytes) {
  constexpr double kEnough = 1.01; // so little exposed that repeating work cannot pay
  std::optional<Prediction> best;
  auto take = [&](std::optional<Prediction> found, double ratio = kWorthIt) {
    if (found && (!best || found->makespanNs < ratio * best->makespanNs))
      best = found;
  };
  auto predictIfFits = [&](const Candidate &candidate) {
    std::optional<int64_t> peak = findPeak(candidate);
    return peak && *peak <= capBytes ? predict(candidate) : std::nullopt;
  };
  const SmallVector<RecomputeStep> cheapSteps = listCheapSteps();
  const Candidate fewest{{}, offload, RecomputeReason::Memory};
  best = predictIfFits({.steps = cheapSteps, .offload = offload});
  if (!best) {
    for (ArrayRef<RecomputeStep> tried : ladders) {
      ladder = tried;
      take(predictFitting(fewest, capBytes, cheapSteps.size()));
    }
    return best;
  }
  const double cheapNs = best->makespanNs;
  const bool isExposed = cheapNs > kEnough * best->computeNs;
  if (std::optional<Prediction> kept = predictIfFits({.offload = offload})) {
    kept->candidate.why = explainKept(cheapNs, kept->makespanNs, "the memory cap");
    take(kept, kWorthKeeping);
  } else if (!cheapSteps.empty()) {
    ladder = ArrayRef(ladders.front()).take_front(cheapSteps.size()); // all of which fit
    // The fewest steps may leave so little room that collectives wait for it.
    std::optional<Prediction> some = predictFitting(fewest, capBytes, 0);
    if (some && some->makespanNs >= kWorthKeeping * cheapNs)
      some = predict({climb(std::min(some->candidate.steps.size() + 1, ladder.size())), offload,
                      RecomputeReason::Memory});
    take(some, kWorthKeeping);
  }
  SmallVector<RecomputeStep> selectedSteps = llvm::filter_to_vector(
      ladders.front(), [](RecomputeStep step) { return step.policy == RecomputePolicy::Selected; });
  if (isExposed && !selectedSteps.empty())
    for (size_t count : {(selectedSteps.size() + 1) / 2, selectedSteps.size()}) {
      Candidate selected{cheapSteps, offload, RecomputeReason::Time};
      llvm::append_range(selected.steps, ArrayRef(selectedSteps).take_front(count));
      take(predict(selected));
    }
  return best;
}

SmallVector<RecomputeStep> ChooseRecomputePass::listCheapSteps() {
  return llvm::map_to_vector(collectFreeBlocks(getOperation()), [](GroupOp group) {
    return RecomputeStep{group.getSymNameAttr(), RecomputePolicy::Cheap};
  });
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

/// What an arena may have where the user says nothing; none where the device's memory is unknown.
std::optional<int64_t> ChooseRecomputePass::getDeviceBytes() {
  constexpr int64_t kUnknownPart = 32; // of the memory, for temporaries that nothing has measured
  const cost::CostModel &costs = search->getCosts();
  if (costs.getMemoryBytes() == 0)
    return std::nullopt;
  const cost::Temporaries temporaries = cost::findTemporaries(getOperation(), costs);
  const int64_t unknownBytes = temporaries.areKnown() ? 0 : costs.getMemoryBytes() / kUnknownPart;
  return costs.getMemoryBytes() - costs.getReservedBytes() - temporaries.scratchBytes -
         unknownBytes;
}

/// `cheap`, unless nothing is faster and fits the device.
Candidate ChooseRecomputePass::chooseWithoutCap(int64_t deviceBytes) {
  const OffloadPolicy offload = this->offload;
  Candidate cheap{.steps = listCheapSteps(), .offload = offload};
  kernels = fusion;
  std::optional<Prediction> cheapStep = predict(cheap), kept = predict({.offload = offload});
  if (!cheapStep || !kept) {
    cheap.why = "no schedule was found to compare it with"; // a later pass says what is wrong
    return cheap;
  }
  if (kept->makespanNs >= kWorthKeeping * cheapStep->makespanNs) {
    cheapStep->candidate.why = llvm::formatv(
        "with nothing computed again the step would take {0:F1} % less, too little for the memory",
        100 * (1 - kept->makespanNs / cheapStep->makespanNs));
  } else if (kept->arenaBytes > deviceBytes) {
    cheapStep->candidate.why =
        llvm::formatv("with nothing computed again the arena would have {0} bytes, and the device "
                      "has room for {1}",
                      kept->arenaBytes, deviceBytes);
  } else {
    kept->candidate.why =
        explainKept(cheapStep->makespanNs, kept->makespanNs,
                    llvm::formatv("the device: an arena of {0} bytes, where there is room for {1}",
                                  kept->arenaBytes, deviceBytes)
                        .str());
    cheapStep = kept;
  }
  announce(*cheapStep);
  return cheapStep->candidate;
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
    // What is cheap comes first: it is named if the rest saves nothing.
    SmallVector<SmallVector<RecomputeStep>> candidates = {listCheapSteps()};
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
  RecomputeAttr attr = chosen.candidate.getAttr(&getContext(), numBlocks);
  remark::analysis(module.getLoc(), remark::RemarkOpts::name("choice").category(getArgument()))
      << remark::metric("Policy", stringifyRecomputePolicy(attr.getPolicy()))
      << remark::metric("RecomputedBlocks", attr.getBlocks()) << remark::metric("Blocks", numBlocks)
      << remark::metric("OffloadedBlocks", chosen.candidate.countOffloaded())
      << remark::metric("PredictedNs", chosen.makespanNs);
  if (attr.getPolicy() != RecomputePolicy::Cheap || chosen.candidate.countOffloaded() > 0)
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
static StringRef explainCheap(Step &step, bool isLimited) {
  if (!isLimited)
    return "without a memory cap, or a device whose memory is known, auto means cheap";
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
  hasCap = capBytes.has_value();
  const std::optional<int64_t> limitBytes = hasCap ? capBytes : getDeviceBytes();
  const bool isAuto = offload == OffloadPolicy::Auto || activations == OffloadPolicy::Auto;
  const bool isDecided = limitBytes && step->isSharded() && (numBlocks > 0 || (isAuto && hasCap));
  if (isAuto && !(isDecided && hasCap)) {
    module.emitError(offload == OffloadPolicy::Auto ? "offload-optimizer" : "offload-activations")
        << "=auto decides nothing on " << step->getWorldSize() << " ranks with "
        << (capBytes ? "a" : "no") << " memory-cap; say all or none";
    return signalPassFailure();
  }
  Candidate chosen;
  RecomputeOptions options;
  if (isDecided) {
    FailureOr<Candidate> found =
        hasCap ? choose(*limitBytes) : FailureOr<Candidate>(chooseWithoutCap(*limitBytes));
    if (failed(found))
      return signalPassFailure();
    chosen = *found;
    applySteps(module, chosen.steps);
    options = getRecomputation(chosen);
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
  recordRecomputation(chosen, isDecided ? "" : explainCheap(*step, limitBytes.has_value()));
  if (isDecided && numBlocks > 0)
    module->setAttr(FsdpDialect::getRecomputeAttrName(), chosen.getAttr(&getContext(), numBlocks));
}
