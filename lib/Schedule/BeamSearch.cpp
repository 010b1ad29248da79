//===- BeamSearch.cpp - Gathers launched position by position -------------===//

#include "BeamSearch.h"

#include "BeamClock.h"
#include "Search.h"
#include "fsdp/Schedule/Simulate.h"

#include <cassert>
#include <unordered_map>

using namespace fsdp::schedule;

/// Partial plans that go on: what they have launched takes memory.
static constexpr int64_t kWidest = 10'000;

namespace {

struct PartialPlan {
  Progress progress;
  uint32_t numLaunched = 0, numBuckets = 0; // gathers
  int32_t launch = -1;                      // the last one before this position
  /// Buckets at this position: gathers up to there. As many as the lane has places for.
  uint32_t ends[2] = {0, 0}, numEnds = 0;
  double score = 0;
};

class BeamSearch {
public:
  BeamSearch(const Problem &problem, const BeamOutline &outline, const BeamLimits &limits)
      : problem(problem), outline(outline), limits(limits), clock(problem, outline.reductionNs) {}
  BeamResult run();

private:
  struct Launch {
    int32_t previous;
    uint32_t position, end; // gathers up to there
  };

  void expand(PartialPlan partial, uint32_t position);
  void launchGiven(PartialPlan partial, uint32_t position);
  void launch(PartialPlan &partial, uint32_t end) const;
  void advance(PartialPlan partial, uint32_t position);
  void select(size_t width, uint32_t position);
  Plan makePlan(const PartialPlan &partial) const;

  const Problem &problem;
  const BeamOutline &outline;
  const BeamLimits limits;
  const BeamClock clock;
  std::vector<PartialPlan> beam, next;
  std::vector<Launch> launches;
  uint32_t numDue = 0; // gathers whose uses have begun when the next operation runs
  uint32_t numGated = 0;
  uint32_t nextReduction = 0, nextWait = 0;
  int64_t steps = 0;
};

} // namespace

/// Launches none, or some of the next gathers if the lane gets free before the operation ends, or
/// while computation waits for what is at work there; and then perhaps more behind them.
void BeamSearch::expand(PartialPlan partial, uint32_t position) {
  constexpr uint32_t kMostMembers = 12;
  if (position < outline.begin) {
    launchGiven(partial, position);
    return;
  }
  if (partial.numLaunched >= numDue)
    advance(partial, position);
  const Progress &progress = partial.progress;
  const double operationNs = problem.operations[position].durationNs * problem.computeContention;
  if (progress.queuedNs > 0 || (progress.gatherNs > operationNs && progress.numGathered >= numDue))
    return;
  const uint32_t begin = partial.numLaunched, end = std::min(numGated, begin + kMostMembers);
  for (uint32_t i = begin + 1; i <= end; ++i) {
    if (i < numDue)
      continue;
    if (i > begin + 1 && outline.bytes[i] - outline.bytes[begin] > limits.bucketBytes)
      break;
    PartialPlan launched = partial;
    launch(launched, i);
    expand(launched, position);
  }
}

/// Where the lane has no place for it, later.
void BeamSearch::launchGiven(PartialPlan partial, uint32_t position) {
  for (const BeamOutline::Bucket &bucket : outline.given)
    if (bucket.launch <= position && bucket.end > partial.numLaunched && bucket.end <= numGated &&
        partial.progress.queuedNs == 0)
      launch(partial, bucket.end);
  advance(partial, position);
}

void BeamSearch::launch(PartialPlan &partial, uint32_t end) const {
  clock.launchGathers(
      partial.progress, end,
      problem.gatherCost.durationNs(outline.bytes[end] - outline.bytes[partial.numLaunched]));
  partial.numLaunched = end;
  ++partial.numBuckets;
  partial.ends[partial.numEnds++] = end;
}

/// Keeps it unless it cannot beat the target: neither if lanes never rest from now on, nor if
/// computation never does. Both count in the score.
void BeamSearch::advance(PartialPlan partial, uint32_t position) {
  Progress &progress = partial.progress;
  if (!clock.waitForGathers(progress, numDue))
    return;
  clock.compute(progress, problem.operations[position].durationNs);
  ++steps;
  double gatherNs = progress.gatherNs + progress.queuedNs - outline.gatherNs[partial.numLaunched];
  if (partial.numLaunched < outline.gathers.size())
    gatherNs += problem.gatherCost.latencyNs;
  double reduceNs = progress.reduceNs - outline.reducedNs[progress.numLaunched];
  for (uint32_t i = progress.numReduced + 1; i < progress.numLaunched; ++i)
    reduceNs += outline.reductionNs[i];
  const double others = problem.laneContention - 1;
  const BeamOutline::Rest &rest = outline.rests[position + 1];
  const double lanesEndNs =
      progress.nowNs + std::max(gatherNs + others * reduceNs + rest.afterGathersNs,
                                reduceNs + others * gatherNs + rest.afterReductionsNs);
  gatherNs += outline.gatherNs.back();
  reduceNs += outline.reducedNs.back();
  const double laneNs = std::max(gatherNs + others * reduceNs, reduceNs + others * gatherNs);
  const double computeEndNs =
      progress.nowNs + rest.computeNs + rest.stallNs +
      (1 - 1 / problem.computeContention) * std::max(0., laneNs - rest.stallNs);
  if (std::max(lanesEndNs, computeEndNs) >= limits.targetNs)
    return;
  constexpr double kLanes = 2. / 3;
  partial.score = kLanes * lanesEndNs + (1 - kLanes) * computeEndNs;
  next.push_back(partial);
}

/// Of two of a kind.
static bool isNoLater(const Progress &a, const Progress &b) {
  const bool isGathered = a.gatherNs == 0 || (a.gatherNs <= b.gatherNs &&
                                              a.gatherNs + a.queuedNs <= b.gatherNs + b.queuedNs &&
                                              a.workingEnd >= b.workingEnd);
  return isGathered && a.nowNs <= b.nowNs && a.numGathered >= b.numGathered &&
         a.numReduced >= b.numReduced && a.reduceNs <= b.reduceNs;
}

/// The best of each number of gathers and buckets, then the second best of each, and so on. Leaves
/// out what is later than another one of its kind.
void BeamSearch::select(size_t width, uint32_t position) {
  constexpr size_t kMostOfKind = 64;
  constexpr int64_t kComparisonsPerStep = 8; // take as long
  int64_t comparisons = 0;
  std::stable_sort(next.begin(), next.end(),
                   [](const PartialPlan &a, const PartialPlan &b) { return a.score < b.score; });
  std::unordered_map<uint64_t, std::vector<uint32_t>> kinds; // never iterated
  std::vector<std::vector<uint32_t>> byRank(kMostOfKind);
  for (uint32_t i = 0; i < next.size(); ++i) {
    std::vector<uint32_t> &kind = kinds[uint64_t(next[i].numLaunched) << 32 | next[i].numBuckets];
    if (kind.size() == kMostOfKind || std::any_of(kind.begin(), kind.end(), [&](uint32_t other) {
          ++comparisons;
          return isNoLater(next[other].progress, next[i].progress);
        }))
      continue;
    byRank[kind.size()].push_back(i);
    kind.push_back(i);
  }
  beam.clear();
  for (const std::vector<uint32_t> &rank : byRank)
    for (uint32_t i : rank)
      if (beam.size() < width)
        beam.push_back(next[i]);
  for (PartialPlan &partial : beam) {
    for (uint32_t i = 0; i < partial.numEnds; ++i) {
      launches.push_back({partial.launch, position, partial.ends[i]});
      partial.launch = int32_t(launches.size()) - 1;
    }
    partial.numEnds = 0;
  }
  next.clear();
  steps += comparisons / kComparisonsPerStep;
}

Plan BeamSearch::makePlan(const PartialPlan &partial) const {
  Plan plan = outline.plan;
  uint32_t end = outline.gathers.size();
  for (int32_t i = partial.launch; i >= 0; i = launches[i].previous) {
    const uint32_t begin = launches[i].previous >= 0 ? launches[launches[i].previous].end : 0;
    plan.gathers.push_back(
        {{outline.gathers.begin() + begin, outline.gathers.begin() + end}, launches[i].position});
    end = begin;
  }
  std::reverse(plan.gathers.begin(), plan.gathers.end());
  return plan;
}

BeamResult BeamSearch::run() {
  beam.emplace_back();
  const std::vector<ReductionBucket> &reductions = outline.plan.reductions;
  for (uint32_t position = 0; position < outline.end; ++position) {
    auto isDue = [&](uint32_t gather) {
      return problem.uses[outline.gathers[gather]].first <= position;
    };
    while (numDue < outline.gathers.size() && isDue(numDue))
      ++numDue;
    while (numGated < outline.gathers.size() && outline.gates[numGated] <= position)
      ++numGated;
    const uint32_t firstWait = nextWait, firstLaunch = nextReduction;
    while (nextReduction < reductions.size() && reductions[nextReduction].launch == position)
      ++nextReduction;
    while (nextWait < nextReduction && reductions[nextWait].wait == position)
      ++nextWait;
    const int64_t before = steps;
    for (PartialPlan partial : beam) {
      // As in a plan: what was launched before is waited for, then each is launched, and waited
      // for.
      uint32_t launched = firstLaunch;
      for (uint32_t waited = firstWait; waited < nextWait; ++waited) {
        for (; launched <= waited; ++launched)
          clock.launchReductions(partial.progress);
        clock.waitForReductions(partial.progress, waited + 1);
      }
      for (; launched < nextReduction; ++launched)
        clock.launchReductions(partial.progress);
      expand(partial, position);
    }
    if (next.empty())
      return {{}, 0, steps};
    // As many as leave the rest of the positions as much each, if they go on in as many as here.
    const int64_t stepsEach = (limits.steps - steps) / (outline.end - position);
    select(size_t(std::clamp<int64_t>(stepsEach * int64_t(beam.size()) / (steps - before), 1,
                                      kWidest)),
           position);
  }
  BeamResult result{{}, limits.targetNs, steps};
  const PartialPlan *best = nullptr;
  for (const PartialPlan &partial : beam)
    if (double endNs = clock.finish(partial.progress); endNs < result.makespanNs) {
      result.makespanNs = endNs;
      best = &partial;
    }
  if (best)
    result.plan = makePlan(*best);
  return result;
}

BeamResult fsdp::schedule::searchOutline(const Problem &problem, const BeamOutline &outline,
                                         const BeamLimits &limits) {
  return BeamSearch(problem, outline, limits).run();
}

bool fsdp::schedule::canSearchBeam(const Problem &problem, int64_t budget) {
  constexpr int64_t kLeastBudget = 5000;
  return !problem.oneLane && !problem.acrossCost && !problem.operations.empty() &&
         budget >= kLeastBudget;
}

void fsdp::schedule::searchBeam(const SearchSpace &space, const LowerBound &bound,
                                std::optional<int64_t> maxBucketBytes, Evaluator &evaluator) {
  const Problem &problem = space.problem;
  const Plan plan = evaluator.best().plan;
  std::vector<std::vector<uint8_t>> choices{plan.kept};
  for (const std::vector<uint32_t> &order : orderKeeps(space, bound)) {
    std::vector<uint8_t> kept = keptFlags(space, fitKeeps(space, order));
    if (std::find(choices.begin(), choices.end(), kept) == choices.end())
      choices.push_back(std::move(kept));
  }
  std::vector<BeamOutline> outlines;
  for (const std::vector<uint8_t> &kept : choices)
    for (bool lateWaits : {true, false})
      if (std::optional<BeamOutline> outline = makeOutline(space, plan, kept, lateWaits))
        outlines.push_back(std::move(*outline));

  const auto numOperations = int64_t(problem.operations.size());
  auto search = [&](const BeamOutline &outline, int64_t simulations, double targetNs) {
    BeamResult result =
        searchOutline(problem, outline,
                      {maxBucketBytes.value_or(INT64_MAX), simulations * numOperations, targetNs});
    evaluator.spend(result.steps / numOperations);
    return std::move(result.plan);
  };
  const Timeline timeline = simulate(problem, plan);
  for (size_t i = 0; i < outlines.size() && !evaluator.isDone(); ++i) {
    BeamOutline &outline = outlines[i];
    const int64_t simulations = evaluator.numLeft() / int64_t(outlines.size() - i);
    if (std::optional<BeamOutline> beginning = makeBeginning(problem, outline))
      if (std::optional<Plan> found =
              search(*beginning, simulations / 4, timeline.operations[outline.begin].startNs)) {
        outline.given.clear();
        uint32_t end = 0;
        for (const GatherBucket &bucket : found->gathers)
          outline.given.push_back({bucket.launch, end += uint32_t(bucket.uses.size())});
      }
    if (std::optional<Plan> found =
            search(outline, simulations * 3 / 4, evaluator.best().makespanNs)) {
      assert(!verify(problem, *found));
      evaluator.consider(std::move(*found), "beam search");
    }
  }
  evaluator.evaluate(decisionsOf(problem, evaluator.best().plan));
}
