//===- ScheduleSearch.cpp - The schedule that a user's flags ask for ------===//

#include "passes/ScheduleSearch.h"

#include "fsdp/Analysis/ShardingChecks.h"
#include "fsdp/Analysis/StateCopies.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/Config/ShardingConfig.h"
#include "fsdp/CostModel/Temporaries.h"
#include "fsdp/Schedule/Optimize.h"
#include "fsdp/Schedule/Policies.h"
#include "passes/ApplySchedule.h"
#include "passes/InfeasibleCap.h"
#include "passes/OverlapStateCopies.h"
#include "passes/PlaceGradients.h"

using namespace mlir;
using namespace fsdp;

namespace {

/// The search on one module.
class Search {
public:
  Search(const SearchFlags &flags, const cost::CostModel &costs, int64_t maxBucketBytes,
         ModuleOp module)
      : flags(flags), costs(costs), maxBucketBytes(maxBucketBytes), module(module),
        scratchBytes(cost::findTemporaries(module, costs).scratchBytes) {}

  LogicalResult check();
  FailureOr<FoundSchedule> scheduleUncapped();
  FailureOr<FoundSchedule> scheduleUnderCap(int64_t capBytes);

private:
  FailureOr<FoundSchedule> search(ModuleOp attempt, const StepMemory &memory,
                                  std::optional<int64_t> capBytes);
  std::optional<FoundSchedule> findPlan(ScheduleProblem &&step) const;

  const SearchFlags &flags;
  const cost::CostModel &costs;
  const int64_t maxBucketBytes; // 0: no limit
  ModuleOp module;
  const int64_t scratchBytes; // beside the arena
  int64_t leastBytes = 0;     // the least peak of any schedule
};

} // namespace

StringRef fsdp::nameChoice(ScheduleChoice choice) {
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
LogicalResult Search::check() {
  if (auto prefetch = module->getAttrOfType<PrefetchAttr>(FsdpDialect::getPrefetchAttrName()))
    return module.emitError("prefetch is '")
           << stringifyPrefetch(prefetch.getValue())
           << "', an order of its own; leave it out where the schedule is searched for";
  FailureOr<Step> step = Step::collect(module);
  return success(succeeded(step) && succeeded(checkGroups(*step)) &&
                 succeeded(checkCollectives(*step)) && succeeded(checkStateCopies(*step)));
}

/// None where nothing fits.
std::optional<FoundSchedule> Search::findPlan(ScheduleProblem &&step) const {
  if (flags.choice == ScheduleChoice::Auto) {
    schedule::OptimizeOptions options;
    options.seed = flags.seed;
    options.simulationBudget = flags.budget;
    options.merge = flags.buckets;
    if (maxBucketBytes > 0)
      options.maxBucketBytes = maxBucketBytes;
    options.jitter = step.getJitter(flags.seed);
    std::optional<schedule::Outcome> outcome = schedule::optimize(step.problem, options);
    if (!outcome)
      return std::nullopt;
    FoundSchedule found{std::move(step), std::move(outcome->plan), outcome->makespanNs,
                        outcome->bound.makespanNs, std::nullopt};
    if (options.jitter)
      found.jittered = schedule::simulate(found.step.problem, found.plan, *options.jitter);
    return found;
  }
  schedule::Policy policy =
      flags.choice == ScheduleChoice::Asap ? schedule::Policy::Asap : schedule::Policy::Fsdp2;
  std::optional<schedule::Plan> plan = schedule::planByPolicy(step.problem, policy);
  if (!plan)
    return std::nullopt;
  double makespanNs = schedule::makespanNs(step.problem, *plan);
  return FoundSchedule{std::move(step), std::move(*plan), makespanNs, 0, std::nullopt};
}

/// Of means within 0.2 %, which a real machine does not tell apart, the better 95th percentile.
static bool isBetter(const FoundSchedule &found, const FoundSchedule &other) {
  constexpr double kNearlyEqual = 1.002;
  if (!found.jittered || !other.jittered)
    return found.makespanNs < other.makespanNs;
  double meanNs = found.jittered->meanNs, otherNs = other.jittered->meanNs;
  if (meanNs > kNearlyEqual * otherNs || otherNs > kNearlyEqual * meanNs)
    return meanNs < otherNs;
  return found.jittered->percentile95Ns < other.jittered->percentile95Ns;
}

/// Updates that clip are at the end wherever they are asked to be.
static bool clipsGradients(ModuleOp module) {
  return llvm::any_of(module.getOps<OptimizerOp>(), [](OptimizerOp optimizer) {
    return optimizer.getClipGradNorm().has_value();
  });
}

/// The best plan of both placements of updates whose live bytes stay within the cap, if there is
/// one.
FailureOr<FoundSchedule> Search::search(ModuleOp attempt, const StepMemory &memory,
                                        std::optional<int64_t> capBytes) {
  struct Candidate {
    ScheduleProblem step;
    double boundNs;
  };
  std::vector<Candidate> candidates;
  for (UpdatePlacement placement : {UpdatePlacement::Interleaved, UpdatePlacement::AtEnd}) {
    FailureOr<ScheduleProblem> step = getScheduleProblem(
        attempt, memory, costs, placement,
        capBytes ? std::optional(std::max<int64_t>(0, *capBytes)) : std::nullopt);
    if (failed(step))
      return failure();
    if (std::optional<std::string> wrong = step->problem.check())
      return module.emitError("the step is no scheduling problem: ") << *wrong;
    int64_t peakBytes = step->problem.minimumPeak().bytes;
    leastBytes = candidates.empty() ? peakBytes : std::min(leastBytes, peakBytes);
    double boundNs = schedule::quickBound(step->problem).makespanNs;
    candidates.push_back({std::move(*step), boundNs});
    if (clipsGradients(attempt))
      break;
  }
  // Interleaved updates hold the fewest shards, and read gradients that have just come.
  constexpr double kLittle = 1.001;
  if (candidates.size() > 1 && candidates[0].boundNs > kLittle * candidates[1].boundNs)
    std::swap(candidates[0], candidates[1]);
  std::optional<FoundSchedule> best;
  for (Candidate &candidate : candidates) {
    if (best && best->makespanNs <= kLittle * candidate.boundNs)
      continue;
    std::optional<FoundSchedule> found = findPlan(std::move(candidate.step));
    if (!found || (best && !isBetter(*found, *best)))
      continue;
    if (std::optional<std::string> wrong = schedule::verify(found->step.problem, found->plan))
      return module.emitError("the schedule that was found is invalid: ") << *wrong;
    best = std::move(found);
  }
  if (best)
    return std::move(*best);
  if (!capBytes || *capBytes >= leastBytes)
    return module.emitError("schedule=")
           << nameChoice(flags.choice) << " finds no order within " << capBytes.value_or(0)
           << " bytes, although " << leastBytes << " are enough for schedule=auto";
  FailureOr<ScheduleProblem> step =
      getScheduleProblem(attempt, memory, costs, UpdatePlacement::Interleaved, capBytes);
  if (succeeded(step))
    reportInfeasibleCap(attempt, memory, *step, costs, *capBytes, scratchBytes);
  return failure();
}

FailureOr<FoundSchedule> Search::scheduleUncapped() {
  FailureOr<StepMemory> memory = StepMemory::build(module, ModulePhase::Sharded);
  if (failed(memory))
    return failure();
  FailureOr<FoundSchedule> found = search(module, *memory, std::nullopt);
  if (succeeded(found))
    applySchedule(module, memory->getBody(), found->step, found->plan);
  return found;
}

/// Live bytes that fit may need a larger arena, because of holes between them: then the search is
/// repeated under a lower cap.
FailureOr<FoundSchedule> Search::scheduleUnderCap(int64_t capBytes) {
  constexpr int kMaxRounds = 8;
  int64_t targetBytes = capBytes, smallestBytes = INT64_MAX;
  for (int round = 0; round < kMaxRounds; ++round) {
    OwningOpRef<ModuleOp> attempt = module.clone();
    FailureOr<StepMemory> memory = StepMemory::build(*attempt, ModulePhase::Sharded);
    if (failed(memory))
      return failure();
    FailureOr<FoundSchedule> found = search(*attempt, *memory, targetBytes);
    if (failed(found))
      return failure();
    applySchedule(*attempt, memory->getBody(), found->step, found->plan);
    FailureOr<StepMemory> after = StepMemory::build(*attempt, ModulePhase::Scheduled);
    if (failed(after))
      return failure();
    int64_t arenaBytes = planArena(after->ranges.getRanges()).arenaBytes;
    smallestBytes = std::min(smallestBytes, arenaBytes);
    if (arenaBytes <= capBytes) {
      module.getBodyRegion().takeBody(attempt->getBodyRegion());
      module->setAttrs((*attempt)->getAttrDictionary());
      return found;
    }
    // Another schedule has other holes: each round leaves more room than the one before. From what
    // the schedule holds, since under caps in between it would be found again.
    if (targetBytes == leastBytes)
      break;
    targetBytes = std::min(targetBytes, schedule::peakOf(found->step.problem, found->plan).bytes);
    targetBytes = std::max(leastBytes, targetBytes - (arenaBytes - capBytes) * (round + 1));
  }
  return module.emitError("no arena fits the memory cap of ")
         << capBytes << " bytes: live bytes do, but with the holes between them the smallest that "
         << "was found has " << smallestBytes << " bytes";
}

FailureOr<std::optional<FoundSchedule>> ScheduleSearch::run(ModuleOp module) const {
  Search search(flags, *costs, maxBucketBytes, module);
  if (failed(search.check()))
    return failure();
  FailureOr<StepMemory> memory = StepMemory::build(module, ModulePhase::Sharded);
  if (failed(memory))
    return failure();
  if (memory->groups.getRanks() == 1) {
    // No collectives: there is one order.
    overlapStateCopies(memory->getBody());
    setPhase(module, ModulePhase::Scheduled);
    return std::optional<FoundSchedule>();
  }
  placeGradients(*memory);
  FailureOr<FoundSchedule> found =
      capBytes > 0 ? search.scheduleUnderCap(*getArenaCapBytes(module)) : search.scheduleUncapped();
  if (failed(found))
    return failure();
  return std::optional(std::move(*found));
}

std::optional<int64_t> ScheduleSearch::getArenaCapBytes(ModuleOp module) const {
  if (capBytes == 0)
    return std::nullopt;
  return capBytes - cost::findTemporaries(module, *costs).scratchBytes;
}

FailureOr<ScheduleSearch> ScheduleSearch::load(ModuleOp module, const SearchFlags &flags) {
  FailureOr<int64_t> capBytes = parseSizeOption(module, "memory-cap", flags.memoryCap);
  FailureOr<int64_t> bucketBytes = parseSizeOption(module, "max-bucket-size", flags.maxBucketSize);
  if (failed(capBytes) || failed(bucketBytes))
    return failure();
  FailureOr<std::shared_ptr<cost::CostModel>> costs = loadCosts(module, flags.costs);
  if (failed(costs))
    return failure();
  return ScheduleSearch(flags, std::move(*costs), *capBytes, *bucketBytes);
}

FailureOr<int64_t> fsdp::parseSizeOption(ModuleOp module, StringRef option, StringRef text) {
  llvm::Expected<int64_t> bytes = parseSizeBytes(text, option);
  if (!bytes)
    return module.emitError(llvm::toString(bytes.takeError()));
  return *bytes;
}

FailureOr<std::shared_ptr<cost::CostModel>> fsdp::loadCosts(ModuleOp module,
                                                            const cost::CostOptions &options) {
  llvm::Expected<std::unique_ptr<cost::CostModel>> costs = cost::CostModel::create(options);
  if (!costs)
    return module.emitError(llvm::toString(costs.takeError()));
  return std::shared_ptr<cost::CostModel>(std::move(*costs));
}
