//===- OptimizeSchedule.cpp - The best schedule under a memory cap --------===//

#include "fsdp/Analysis/ShardingChecks.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/Config/ShardingConfig.h"
#include "fsdp/Schedule/Optimize.h"
#include "fsdp/Schedule/Policies.h"
#include "mlir/IR/Remarks.h"
#include "passes/ApplySchedule.h"
#include "passes/InfeasibleCap.h"
#include "passes/Passes.h"
#include "passes/PlaceGradients.h"

namespace fsdp {
#define GEN_PASS_DEF_OPTIMIZESCHEDULE
#include "passes/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// What a search found.
struct Choice {
  ScheduleProblem step;
  UpdatePlacement placement;
  schedule::Plan plan;
  double makespanNs;
  double boundNs = 0; // 0: not asked for
};

struct OptimizeSchedulePass : public fsdp::impl::OptimizeScheduleBase<OptimizeSchedulePass> {
  using OptimizeScheduleBase::OptimizeScheduleBase;

  void runOnOperation() override;

private:
  LogicalResult check(ModuleOp module);
  FailureOr<Choice> search(ModuleOp module, const StepMemory &memory, int64_t capBytes);
  LogicalResult choose(ScheduleProblem &&step, UpdatePlacement placement,
                       std::optional<Choice> &best);
  LogicalResult scheduleUncapped(ModuleOp module);
  LogicalResult scheduleUnderCap(ModuleOp module, int64_t capBytes);
  void report(ModuleOp module, const Choice &choice);

  std::shared_ptr<cost::CostModel> costs; // passes are copied
  int64_t leastBytes = 0;                 // the least peak of any schedule
};

} // namespace

static StringRef nameChoice(ScheduleChoice choice) {
  switch (choice) {
  case ScheduleChoice::Fsdp2:
    return "fsdp2";
  case ScheduleChoice::Asap:
    return "asap";
  case ScheduleChoice::Auto:
    return "auto";
  }
  llvm_unreachable("all choices are named");
}

/// What cannot be scheduled: an order of its own, or no sharded step.
LogicalResult OptimizeSchedulePass::check(ModuleOp module) {
  if (auto prefetch = module->getAttrOfType<PrefetchAttr>(FsdpDialect::getPrefetchAttrName()))
    return module.emitError("prefetch is '")
           << stringifyPrefetch(prefetch.getValue())
           << "', an order of its own; leave it out where the schedule is searched for";
  FailureOr<Step> step = Step::collect(module);
  return success(succeeded(step) && succeeded(checkGroups(*step)) &&
                 succeeded(checkCollectives(*step)));
}

/// Takes this placement's plan if it is the best so far. None is found where nothing fits.
LogicalResult OptimizeSchedulePass::choose(ScheduleProblem &&step, UpdatePlacement placement,
                                           std::optional<Choice> &best) {
  std::optional<Choice> found;
  if (choice == ScheduleChoice::Auto) {
    schedule::OptimizeOptions options;
    options.seed = seed;
    options.simulationBudget = budget;
    options.merge = buckets;
    if (step.computeSpread > 0 || step.networkSpread > 0)
      options.jitter = schedule::Jitter{
          .computeSpread = step.computeSpread, .networkSpread = step.networkSpread, .seed = seed};
    if (std::optional<schedule::Outcome> outcome = schedule::optimize(step.problem, options))
      found.emplace(Choice{std::move(step), placement, std::move(outcome->plan),
                           outcome->makespanNs, outcome->bound.makespanNs});
  } else {
    schedule::Policy policy =
        choice == ScheduleChoice::Asap ? schedule::Policy::Asap : schedule::Policy::Fsdp2;
    if (std::optional<schedule::Plan> plan = schedule::planByPolicy(step.problem, policy)) {
      double makespanNs = schedule::makespanNs(step.problem, *plan);
      found.emplace(Choice{std::move(step), placement, std::move(*plan), makespanNs});
    }
  }
  if (!found)
    return success();
  if (std::optional<std::string> wrong = schedule::verify(found->step.problem, found->plan))
    return getOperation().emitError("the schedule that was found is invalid: ") << *wrong;
  if (!best || found->makespanNs < best->makespanNs)
    best = std::move(found);
  return success();
}

/// The best plan whose live bytes stay within the cap; 0: no cap.
FailureOr<Choice> OptimizeSchedulePass::search(ModuleOp module, const StepMemory &memory,
                                               int64_t capBytes) {
  struct Candidate {
    ScheduleProblem step;
    UpdatePlacement placement;
    double boundNs;
  };
  std::vector<Candidate> candidates;
  for (UpdatePlacement placement : {UpdatePlacement::AtEnd, UpdatePlacement::Interleaved}) {
    FailureOr<ScheduleProblem> step = getScheduleProblem(module, memory, *costs, placement);
    if (failed(step))
      return failure();
    if (capBytes > 0)
      step->problem.memoryCapBytes = capBytes;
    if (std::optional<std::string> wrong = step->problem.check())
      return module.emitError("the step is no scheduling problem: ") << *wrong;
    int64_t peakBytes = step->problem.minimumPeak().bytes;
    leastBytes = candidates.empty() ? peakBytes : std::min(leastBytes, peakBytes);
    double boundNs = schedule::quickBound(step->problem).makespanNs;
    candidates.push_back({std::move(*step), placement, boundNs});
  }
  llvm::stable_sort(candidates,
                    [](const Candidate &a, const Candidate &b) { return a.boundNs < b.boundNs; });
  std::optional<Choice> best;
  for (Candidate &candidate : candidates) {
    // Nothing to gain but a thousandth.
    if (best && best->makespanNs <= 1.001 * candidate.boundNs)
      continue;
    if (failed(choose(std::move(candidate.step), candidate.placement, best)))
      return failure();
  }
  if (best)
    return std::move(*best);
  if (capBytes >= leastBytes)
    return module.emitError("schedule=")
           << nameChoice(choice) << " finds no order within " << capBytes << " bytes, although "
           << leastBytes << " are enough for schedule=auto";
  // Interleaved updates hold the fewest shards.
  FailureOr<ScheduleProblem> step =
      getScheduleProblem(module, memory, *costs, UpdatePlacement::Interleaved);
  if (succeeded(step))
    reportInfeasibleCap(module, memory, *step, *costs, capBytes);
  return failure();
}

LogicalResult OptimizeSchedulePass::scheduleUncapped(ModuleOp module) {
  FailureOr<StepMemory> memory = StepMemory::build(module, ModulePhase::Sharded);
  if (failed(memory))
    return failure();
  FailureOr<Choice> found = search(module, *memory, 0);
  if (failed(found))
    return failure();
  report(module, *found);
  applySchedule(module, memory->getBody(), found->step, found->plan);
  return success();
}

/// Live bytes that fit may need a larger arena, because of holes between them: then the search is
/// repeated under a lower cap.
LogicalResult OptimizeSchedulePass::scheduleUnderCap(ModuleOp module, int64_t capBytes) {
  constexpr int kMaxRounds = 8;
  int64_t targetBytes = capBytes, smallestBytes = INT64_MAX;
  for (int round = 0; round < kMaxRounds; ++round) {
    OwningOpRef<ModuleOp> attempt = module.clone();
    FailureOr<StepMemory> memory = StepMemory::build(*attempt, ModulePhase::Sharded);
    if (failed(memory))
      return failure();
    FailureOr<Choice> found = search(*attempt, *memory, targetBytes);
    if (failed(found))
      return failure();
    schedule::Plan plan = found->plan;
    applySchedule(*attempt, memory->getBody(), found->step, plan);
    FailureOr<StepMemory> after = StepMemory::build(*attempt, ModulePhase::Scheduled);
    if (failed(after))
      return failure();
    int64_t arenaBytes = planArena(after->ranges.getRanges()).arenaBytes;
    smallestBytes = std::min(smallestBytes, arenaBytes);
    if (arenaBytes <= capBytes) {
      report(module, *found);
      module.getBodyRegion().takeBody(attempt->getBodyRegion());
      module->setAttrs((*attempt)->getAttrDictionary());
      return success();
    }
    // Another schedule has other holes: each round leaves more room than the one before.
    if (targetBytes == leastBytes)
      break;
    targetBytes = std::max(leastBytes, targetBytes - (arenaBytes - capBytes) * (round + 1));
  }
  return module.emitError("no arena fits the memory cap of ")
         << capBytes << " bytes: live bytes do, but with the holes between them the smallest that "
         << "was found has " << smallestBytes << " bytes";
}

void OptimizeSchedulePass::report(ModuleOp module, const Choice &choice) {
  unsigned kept = llvm::count(choice.plan.kept, 1);
  double ratio = choice.boundNs > 0 ? choice.makespanNs / choice.boundNs : 0;
  remark::analysis(module.getLoc(), remark::RemarkOpts::name("schedule").category(getArgument()))
      << remark::metric("PredictedNs", choice.makespanNs)
      << remark::metric("BoundNs", choice.boundNs) << remark::metric("Ratio", ratio)
      << remark::metric("Kept", kept) << remark::metric("Gathers", choice.plan.kept.size() - kept)
      << remark::metric("GatherLaunches", choice.plan.gathers.size())
      << remark::metric("Reductions", choice.step.reductions.size())
      << remark::metric("ReductionLaunches", choice.plan.reductions.size())
      << remark::metric("PeakLiveBytes", schedule::peakOf(choice.step.problem, choice.plan).bytes);
}

void OptimizeSchedulePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(expectPhase(module, getArgument(), ModulePhase::Sharded)) || failed(check(module)))
    return signalPassFailure();
  llvm::Expected<int64_t> capBytes = parseSizeBytes(memoryCap, "memory-cap");
  if (!capBytes) {
    module.emitError(llvm::toString(capBytes.takeError()));
    return signalPassFailure();
  }
  auto model = cost::CostModel::create({.device = device, .profile = profile, .network = network});
  if (!model) {
    module.emitError(llvm::toString(model.takeError()));
    return signalPassFailure();
  }
  costs = std::move(*model);

  FailureOr<StepMemory> memory = StepMemory::build(module, ModulePhase::Sharded);
  if (failed(memory))
    return signalPassFailure();
  if (memory->groups.getRanks() == 1) {
    // No collectives: there is one order.
    setPhase(module, ModulePhase::Scheduled);
    return;
  }
  placeGradients(*memory);
  LogicalResult done =
      *capBytes > 0 ? scheduleUnderCap(module, *capBytes) : scheduleUncapped(module);
  if (failed(done))
    signalPassFailure();
}
