//===- ScheduleSearch.cpp - The search for a schedule ---------------------===//

#include "fsdp/Transforms/ScheduleSearch.h"

#include "SearchableStep.h"
#include "fsdp/Analysis/ShardingChecks.h"
#include "fsdp/Analysis/StateCopies.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/Config/ShardingConfig.h"
#include "fsdp/CostModel/Temporaries.h"
#include "fsdp/Schedule/LeaveRoom.h"
#include "fsdp/Schedule/Optimize.h"
#include "fsdp/Schedule/Policies.h"
#include "fsdp/Transforms/ApplySchedule.h"
#include "fsdp/Transforms/CapRefusal.h"
#include "fsdp/Transforms/InfeasibleCap.h"
#include "fsdp/Transforms/OffloadGradients.h"
#include "fsdp/Transforms/OverlapStateCopies.h"
#include "fsdp/Transforms/PrepareSearch.h"

using namespace mlir;
using namespace fsdp;

/// Reserves so much memory that only buffers needed by the current operation can be live.
static constexpr int64_t kAllRoom = std::numeric_limits<int64_t>::max();

namespace {

/// The search on one module.
class Search {
public:
  Search(const SearchFlags &flags, const cost::CostModel &costs, PlanMemo &memo,
         int64_t maxBucketBytes, ModuleOp module)
      : flags(flags), costs(costs), memo(memo), maxBucketBytes(maxBucketBytes), module(module),
        scratchBytes(cost::findTemporaries(module, costs).scratchBytes) {}

  FailureOr<FoundSchedule> scheduleUncapped();
  FailureOr<FoundSchedule> scheduleUnderCap(int64_t capBytes, FindLeastPeak findLeastPeak);

private:
  /// A schedule of a copy of the module, and the size of its arena.
  struct PlacedSchedule {
    OwningOpRef<ModuleOp> module;
    FoundSchedule found;
    int64_t arenaBytes;
  };
  FailureOr<std::optional<FoundSchedule>> search(ModuleOp attempt, const StepMemory &memory,
                                                 std::optional<int64_t> capBytes,
                                                 int64_t roomBytes);
  std::optional<FoundSchedule> findPlan(ScheduleProblem &&step, int64_t roomBytes,
                                        double knownBoundNs) const;
  FailureOr<std::optional<PlacedSchedule>> place(int64_t capBytes, int64_t roomBytes);
  FailureOr<std::optional<PlacedSchedule>> placeUnderCap(int64_t capBytes);
  FoundSchedule take(PlacedSchedule &&placed);
  LogicalResult findLeastBytes();
  LogicalResult refuse(int64_t capBytes, std::optional<int64_t> placedBytes,
                       FindLeastPeak findLeastPeak);

  const SearchFlags &flags;
  const cost::CostModel &costs;
  PlanMemo &memo;
  const int64_t maxBucketBytes; // 0: no limit
  ModuleOp module;
  const int64_t scratchBytes; // outside of the arena
  int64_t leastBytes = 0;     // the least peak of any schedule
  std::array<double, 2> boundOf =
      {}; // by placement of updates: under the cap, from the first search
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

/// Removes the copies out of gathers that the plan avoids by keeping parameters.
static void spareCopies(FoundSchedule &found) {
  if (found.step.sparedCopies.empty())
    return;
  found.step.spareCopies(found.plan);
  found.makespanNs = schedule::makespanNs(found.step.problem, found.plan);
}

/// nullopt if no plan fits.
std::optional<FoundSchedule> Search::findPlan(ScheduleProblem &&step, int64_t roomBytes,
                                              double knownBoundNs) const {
  // With all memory reserved there is a single schedule, and no search.
  if (flags.choice == ScheduleChoice::Auto && roomBytes < kAllRoom) {
    schedule::OptimizeOptions options;
    options.seed = flags.seed;
    options.simulationBudget = flags.budget;
    options.knownBoundNs = knownBoundNs;
    if (!flags.buckets)
      options.maxBucketBytes = 0;
    else if (maxBucketBytes > 0)
      options.maxBucketBytes = maxBucketBytes;
    options.jitter = step.getJitter(flags.seed);
    std::optional<schedule::Outcome> outcome = memo.optimize(step.problem, options);
    if (!outcome)
      return std::nullopt;
    double boundNs = step.hasCopies() ? findBound(step, outcome->makespanNs).makespanNs
                                      : outcome->bound.makespanNs;
    FoundSchedule found{std::move(step), std::move(outcome->plan), outcome->makespanNs, boundNs,
                        std::nullopt};
    spareCopies(found);
    if (options.jitter)
      found.jittered = schedule::simulate(found.step.problem, found.plan, *options.jitter);
    return found;
  }
  schedule::Policy policy =
      flags.choice == ScheduleChoice::Fsdp2 ? schedule::Policy::Fsdp2 : schedule::Policy::Asap;
  std::optional<schedule::Plan> plan = schedule::planByPolicy(step.problem, policy);
  if (!plan)
    return std::nullopt;
  double makespanNs = schedule::makespanNs(step.problem, *plan);
  FoundSchedule found{std::move(step), std::move(*plan), makespanNs, 0, std::nullopt};
  spareCopies(found);
  return found;
}

/// Compares means; within 0.2 %, which a real machine does not resolve, the 95th percentiles.
static bool isBetter(const FoundSchedule &found, const FoundSchedule &other) {
  constexpr double kNearlyEqual = 1.002;
  if (!found.jittered || !other.jittered)
    return found.makespanNs < other.makespanNs;
  double meanNs = found.jittered->meanNs, otherNs = other.jittered->meanNs;
  if (meanNs > kNearlyEqual * otherNs || otherNs > kNearlyEqual * meanNs)
    return meanNs < otherNs;
  return found.jittered->percentile95Ns < other.jittered->percentile95Ns;
}

/// Where updates need the norm of all gradients, they are at the end whatever placement is
/// requested.
static bool needsNorm(ModuleOp module) {
  return llvm::any_of(module.getOps<OptimizerOp>(),
                      [](OptimizerOp optimizer) { return optimizer.needsNorm(); });
}

/// Bytes that the search must leave free at each operation: `holeBytes` for holes between buffers,
/// and the unused parts of reductions' inputs. The whole input is one buffer from its first
/// gradient on; until a later gradient is computed, its part is a hole that only a buffer with an
/// earlier end can fill.
static std::vector<int64_t> findRoom(const ScheduleProblem &step, const StepMemory &memory,
                                     int64_t holeBytes) {
  size_t numOperations = step.problem.operations.size();
  std::vector<int64_t> change(numOperations + 1);
  llvm::DenseMap<size_t, const OperationRange *> lifeOf; // by live range
  for (const OperationRange &life : step.ranges)
    lifeOf[life.range] = &life;
  for (auto [reduction, start] : llvm::zip_equal(step.problem.reductions, step.reductions)) {
    uint32_t first = reduction.ready;
    ArrayRef<size_t> gradients = memory.ranges.lookup(start).drop_back();
    for (size_t range : gradients)
      first = std::min(first, lifeOf.lookup(range)->first);
    for (size_t range : gradients) {
      change[first] += memory.ranges.getRanges()[range].bytes;
      change[lifeOf.lookup(range)->first] -= memory.ranges.getRanges()[range].bytes;
    }
  }
  change.pop_back();
  std::partial_sum(change.begin(), change.end(), change.begin());
  for (int64_t &bytes : change)
    bytes = holeBytes > kAllRoom - bytes ? kAllRoom : bytes + holeBytes;
  return change;
}

/// The best plan of both placements of updates whose live bytes stay within the cap and leave room
/// for holes; nullopt if none fits.
FailureOr<std::optional<FoundSchedule>> Search::search(ModuleOp attempt, const StepMemory &memory,
                                                       std::optional<int64_t> capBytes,
                                                       int64_t roomBytes) {
  struct Candidate {
    ScheduleProblem step;
    UpdatePlacement placement;
    double boundNs;
    std::vector<schedule::Operation> operations; // without reserved room; empty if none is reserved
  };
  std::vector<Candidate> candidates;
  for (UpdatePlacement placement : {UpdatePlacement::Interleaved, UpdatePlacement::AtEnd}) {
    FailureOr<ScheduleProblem> step =
        getScheduleProblem(attempt, memory, costs, placement,
                           capBytes ? std::optional(std::max<int64_t>(0, *capBytes)) : std::nullopt,
                           flags.offloadChunks);
    if (failed(step))
      return failure();
    schedule::Problem &problem = step->problem;
    if (std::optional<std::string> wrong = problem.check())
      return module.emitError("the step is no scheduling problem: ") << *wrong;
    int64_t peakBytes = problem.minimumPeak().bytes;
    leastBytes = candidates.empty() ? peakBytes : std::min(leastBytes, peakBytes);
    std::vector<schedule::Operation> operations;
    if (roomBytes > 0) {
      operations = problem.operations;
      leaveRoom(problem, findRoom(*step, memory, roomBytes));
    }
    double boundNs = schedule::quickBound(problem).makespanNs;
    if (roomBytes == 0)
      boundOf[static_cast<size_t>(placement)] = boundNs;
    candidates.push_back({std::move(*step), placement, boundNs, std::move(operations)});
    if (needsNorm(attempt))
      break;
  }
  // Interleaved updates keep the fewest shards live, and read gradients that were just reduced.
  constexpr double kLittle = 1.001;
  if (candidates.size() > 1 && candidates[0].boundNs > kLittle * candidates[1].boundNs)
    std::swap(candidates[0], candidates[1]);
  std::optional<FoundSchedule> best;
  for (Candidate &candidate : candidates) {
    if (best && best->makespanNs <= kLittle * candidate.boundNs)
      continue;
    double &boundNs = boundOf[static_cast<size_t>(candidate.placement)];
    std::optional<FoundSchedule> found = findPlan(std::move(candidate.step), roomBytes, boundNs);
    if (!found)
      continue;
    if (candidate.operations.empty()) {
      boundNs = found->boundNs;
    } else {
      // The bound of the first search also holds with other reserved room.
      found->boundNs = boundNs;
      found->step.problem.operations = std::move(candidate.operations);
      spareCopies(*found);
    }
    if (best && !isBetter(*found, *best))
      continue;
    if (std::optional<std::string> wrong = schedule::verify(found->step.problem, found->plan))
      return module.emitError("the schedule that was found is invalid: ") << *wrong;
    best = std::move(found);
  }
  return best;
}

FailureOr<FoundSchedule> Search::scheduleUncapped() {
  FailureOr<StepMemory> memory = StepMemory::build(module, ModulePhase::Sharded);
  if (failed(memory))
    return failure();
  FailureOr<std::optional<FoundSchedule>> found = search(module, *memory, std::nullopt, 0);
  if (failed(found))
    return failure();
  if (!*found)
    return module.emitError("schedule=") << nameChoice(flags.choice) << " finds no order";
  applySchedule(module, memory->getBody(), (*found)->step, (*found)->plan);
  return std::move(**found);
}

/// Schedules a copy of the module and places its buffers; nullopt if no plan fits.
FailureOr<std::optional<Search::PlacedSchedule>> Search::place(int64_t capBytes,
                                                               int64_t roomBytes) {
  OwningOpRef<ModuleOp> attempt = module.clone();
  FailureOr<StepMemory> memory = StepMemory::build(*attempt, ModulePhase::Sharded);
  if (failed(memory))
    return failure();
  FailureOr<std::optional<FoundSchedule>> found = search(*attempt, *memory, capBytes, roomBytes);
  if (failed(found))
    return failure();
  if (!*found)
    return std::optional<PlacedSchedule>();
  applySchedule(*attempt, memory->getBody(), (*found)->step, (*found)->plan);
  FailureOr<Step> step = Step::collect(*attempt);
  if (failed(step))
    return failure();
  offloadGradients(*step); // the arena is that of the step with these copies
  FailureOr<StepMemory> after = StepMemory::build(*attempt, ModulePhase::Scheduled);
  if (failed(after))
    return failure();
  int64_t arenaBytes = planArena(after->ranges.getRanges()).arenaBytes;
  return std::optional(PlacedSchedule{std::move(attempt), std::move(**found), arenaBytes});
}

FoundSchedule Search::take(PlacedSchedule &&placed) {
  module.getBodyRegion().takeBody(placed.module->getBodyRegion());
  module->setAttrs((*placed.module)->getAttrDictionary());
  return std::move(placed.found);
}

/// A schedule whose live bytes fit may still need a larger arena because of holes. The search is
/// then repeated with more room reserved until the arena fits, and with less if that costs much
/// time.
FailureOr<std::optional<Search::PlacedSchedule>> Search::placeUnderCap(int64_t capBytes) {
  constexpr int kMaxRounds = 5;
  constexpr double kLittle = 1.005;
  std::optional<PlacedSchedule> best;
  double fastestNs = 0; // without reserved room
  int64_t roomBytes = 0, tooLittle = 0, enough = kAllRoom;
  for (int round = 0; round < kMaxRounds; ++round) {
    FailureOr<std::optional<PlacedSchedule>> placed = place(capBytes, roomBytes);
    if (failed(placed))
      return failure();
    if (!*placed)
      break;
    int64_t excessBytes = (*placed)->arenaBytes - capBytes;
    if (round == 0)
      fastestNs = (*placed)->found.makespanNs;
    if (excessBytes > 0) {
      tooLittle = roomBytes;
    } else {
      enough = roomBytes;
      if (!best || isBetter((*placed)->found, best->found))
        best = std::move(**placed);
      if (best->found.makespanNs <= kLittle * fastestNs)
        break;
    }
    // A small increase of the room may lead to the same plan with the same holes.
    const int64_t moreBytes = std::max(excessBytes * (round + 1), tooLittle / 8);
    roomBytes = enough == kAllRoom ? tooLittle + moreBytes : tooLittle + (enough - tooLittle) / 2;
  }
  return best;
}

/// Copies to and from the host are placed by the cap: this is the least peak under any cap.
LogicalResult Search::findLeastBytes() {
  OwningOpRef<ModuleOp> attempt = module.clone();
  FailureOr<StepMemory> memory = StepMemory::build(*attempt, ModulePhase::Sharded);
  if (failed(memory))
    return failure();
  for (UpdatePlacement placement : {UpdatePlacement::Interleaved, UpdatePlacement::AtEnd}) {
    FailureOr<ScheduleProblem> step =
        getScheduleProblem(*attempt, *memory, costs, placement, /*capBytes=*/1);
    if (failed(step))
      return failure();
    leastBytes = std::min(leastBytes, step->problem.minimumPeak().bytes);
  }
  return success();
}

/// If no schedule fits, the one with the least live bytes is tried last. It does not depend on the
/// cap, so the size of its arena is a sufficient cap, which a refusal names.
FailureOr<FoundSchedule> Search::scheduleUnderCap(int64_t capBytes, FindLeastPeak findLeastPeak) {
  FailureOr<std::optional<PlacedSchedule>> placed = placeUnderCap(capBytes);
  if (failed(placed))
    return failure();
  if (*placed)
    return take(std::move(**placed));
  if (failed(findLeastBytes()))
    return failure();
  FailureOr<std::optional<PlacedSchedule>> least = place(leastBytes, kAllRoom);
  if (failed(least))
    return failure();
  if (*least && (*least)->arenaBytes <= capBytes)
    return take(std::move(**least));
  std::optional<int64_t> placedBytes;
  if (*least)
    placedBytes = (*least)->arenaBytes;
  return refuse(capBytes, placedBytes, findLeastPeak);
}

/// `placedBytes`: the size of the smallest arena found, if any.
LogicalResult Search::refuse(int64_t capBytes, std::optional<int64_t> placedBytes,
                             FindLeastPeak findLeastPeak) {
  if (capBytes >= leastBytes) {
    InFlightDiagnostic diag = module.emitError("no arena fits the memory cap of ")
                              << capBytes + scratchBytes << " bytes: " << leastBytes
                              << " bytes are live at once";
    CapRefusal refusal{.leastBytes = leastBytes + scratchBytes};
    if (placedBytes) {
      refusal.enoughBytes = *placedBytes + scratchBytes;
      diag << "; a cap of " << *refusal.enoughBytes << " bytes is enough";
    }
    attachRefusal(*diag.getUnderlyingDiagnostic(), refusal);
    return diag;
  }
  FailureOr<StepMemory> memory = StepMemory::build(module, ModulePhase::Sharded);
  if (failed(memory))
    return failure();
  // Interleaved updates keep the fewest shards live.
  FailureOr<ScheduleProblem> step =
      getScheduleProblem(module, *memory, costs, UpdatePlacement::Interleaved, capBytes);
  if (succeeded(step))
    reportInfeasibleCap(module, *memory, *step, {capBytes, scratchBytes, placedBytes},
                        findLeastPeak);
  return failure();
}

FailureOr<std::optional<FoundSchedule>> ScheduleSearch::run(ModuleOp module,
                                                            FindLeastPeak findLeastPeak) const {
  FailureOr<Step> step = Step::collect(module);
  if (failed(step) || failed(checkSharded(*step)))
    return failure();
  Search search(flags, *costs, *memo, maxBucketBytes, module);
  FailureOr<StepMemory> memory = prepareSearch(module);
  if (failed(memory))
    return failure();
  if (!memory->groups.isSharded()) {
    if (memory->groups.isReplicated())
      return module.emitError("parameters are not sharded, but gradients are reduced over ")
             << memory->groups.getGroups().front().replicas
             << " replicas: there is nothing to search for; expected schedule fsdp2";
    if (llvm::any_of(memory->groups.getGroups(), [](const GroupInfo &group) {
          return GroupOp(group.op).areParametersOnHost();
        }))
      return module.emitError(
          "parameters lie on the host, but on one rank there are no collectives "
          "to search an order of; expected schedule fsdp2");
    // Without collectives there is only one order.
    overlapStateCopies(memory->getBody());
    setPhase(module, ModulePhase::Scheduled);
    return std::optional<FoundSchedule>();
  }
  FailureOr<FoundSchedule> found =
      capBytes > 0 ? search.scheduleUnderCap(*getArenaCapBytes(module), findLeastPeak)
                   : search.scheduleUncapped();
  if (failed(found))
    return failure();
  return std::optional(std::move(*found));
}

std::optional<int64_t> ScheduleSearch::getArenaCapBytes(ModuleOp module) const {
  if (capBytes == 0)
    return std::nullopt;
  return capBytes - cost::findTemporaries(module, *costs).scratchBytes;
}

FailureOr<ScheduleSearch> ScheduleSearch::load(ModuleOp module, const SearchFlags &flags,
                                               std::shared_ptr<PlanMemo> memo) {
  FailureOr<Step> step = Step::collect(module);
  if (failed(step) || failed(checkIsSearchable(*step)))
    return failure();
  if (flags.budget < 0)
    return module.emitError("budget is ") << flags.budget << ", expected 0 or more";
  FailureOr<int64_t> capBytes = parseSizeOption(module, "memory-cap", flags.memoryCap);
  FailureOr<int64_t> bucketBytes = parseSizeOption(module, "max-bucket-size", flags.maxBucketSize);
  if (failed(capBytes) || failed(bucketBytes))
    return failure();
  FailureOr<std::shared_ptr<cost::CostModel>> costs = loadCosts(module, flags.costs);
  if (failed(costs))
    return failure();
  return ScheduleSearch(flags, std::move(*costs), std::move(memo), *capBytes, *bucketBytes);
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
