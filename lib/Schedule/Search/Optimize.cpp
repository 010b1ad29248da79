//===- Optimize.cpp - The best plan under the cap, with a lower bound ------===//

#include "fsdp/Schedule/Optimize.h"

#include "Bucketing.h"
#include "Evaluator.h"
#include "Model/LiveBytes.h"
#include "fsdp/Schedule/Policies.h"

#include <algorithm>
#include <cassert>

using namespace fsdp::schedule;

namespace {

class Optimizer {
public:
  Optimizer(const Problem &problem, const OptimizeOptions &options)
      : problem(problem), options(options), space(problem), evaluator(problem, options) {}
  std::optional<Outcome> run();

private:
  void tryPolicies();
  void solveProgram();
  void search();
  void addRobustVariants();
  std::vector<Incumbent> addSlack() const;
  size_t preferUnderJitter(const std::vector<Incumbent> &candidates) const;

  const Problem &problem;
  const OptimizeOptions &options;
  SearchSpace space;
  Evaluator evaluator;
  LowerBound bound;
};

} // namespace

/// Adds each policy's plan, and the list schedule of its decisions, to the candidates. So the
/// outcome is at least as good as both.
void Optimizer::tryPolicies() {
  for (Policy policy : {Policy::Asap, Policy::Fsdp2}) {
    evaluator.setOrigin(getName(policy));
    if (std::optional<Plan> plan = planByPolicy(problem, policy))
      evaluator.consider(std::move(*plan));
    evaluator.setOrigin(std::string(getName(policy)) + " through the list scheduler");
    evaluator.evaluate(decideByPolicy(problem, policy));
  }
}

/// The time to solve the linear program grows with the square of its size. With more uses it would
/// take longer than the rest of the search. With many large groups latencies matter little, and
/// they cost most of the program's time.
void Optimizer::solveProgram() {
  constexpr size_t kMostUses = 600, kMostUsesWithLatency = 130;
  if (problem.uses.size() <= kMostUses)
    bound = fluidBound(problem, {.ignoreLatency = problem.uses.size() > kMostUsesWithLatency});
  evaluator.setBound(bound.makespanNs);
}

/// The second search begins with the best plan's copies and chunks, but with a launch for each
/// collective: buckets, gates and a shared lane gain time at once, and moves seldom undo them.
void Optimizer::search() {
  evaluator.limitSimulations(options.simulationBudget / 2);
  evaluator.setOrigin("coordinate descent");
  descendCoordinates(space, bound, evaluator);
  evaluator.setOrigin("local search");
  evaluator.limitSimulations(options.simulationBudget);
  searchLocally(space, options.seed, evaluator.bestDecisions(), evaluator);
  if (evaluator.isWithin(OptimizeOptions::kFarFromBound))
    return;
  evaluator.limitSimulations(options.simulationBudget * (1 + OptimizeOptions::kSecondSearch));
  const Decisions &best = evaluator.bestDecisions().decisions;
  const Decisions single = makeDecisions(space, {best.kept, best.chunked});
  searchLocally(space, options.seed + 1, {single, evaluator.evaluate(single)}, evaluator);
}

/// Adds plans that keep as much as fits or launch each collective as early as possible. These plans
/// depend least on the network.
void Optimizer::addRobustVariants() {
  evaluator.setOrigin("robust variant");
  Decisions ungated = evaluator.bestDecisions().decisions;
  for (Decisions::Gathers &bucket : ungated.gathers)
    bucket.gate = 0;
  evaluator.evaluate(ungated);
  evaluator.evaluate(makeDecisions(space, {fitKeeps(space, orderByGap(space, space.mayKeep))}));
}

/// The candidates. In each candidate waits are put off, unless this makes it slower.
std::vector<Incumbent> Optimizer::addSlack() const {
  constexpr double kRounding = 1 + 1e-9;
  std::vector<Incumbent> candidates = evaluator.candidates();
  for (Incumbent &candidate : candidates) {
    Plan plan = candidate.plan;
    putOffWaits(problem, plan);
    if (double withSlackNs = makespanNs(problem, plan);
        withSlackNs <= candidate.makespanNs * kRounding) {
      candidate.plan = std::move(plan);
      candidate.makespanNs = withSlackNs;
    }
  }
  return candidates;
}

size_t Optimizer::preferUnderJitter(const std::vector<Incumbent> &candidates) const {
  if (!options.jitter || candidates.size() < 2)
    return 0;
  std::vector<const Plan *> plans;
  for (const Incumbent &candidate : candidates)
    plans.push_back(&candidate.plan);
  std::vector<JitteredMakespan> makespans = simulate(problem, plans, *options.jitter);
  const double leastMeanNs = std::ranges::min(makespans, {}, &JitteredMakespan::meanNs).meanNs;
  for (JitteredMakespan &makespan : makespans)
    if (makespan.meanNs > leastMeanNs * Evaluator::kNearlyEqual)
      makespan.percentile95Ns = std::numeric_limits<double>::infinity();
  return size_t(std::ranges::min_element(makespans, {}, &JitteredMakespan::percentile95Ns) -
                makespans.begin());
}

std::optional<Outcome> Optimizer::run() {
  bound = quickBound(problem);
  evaluator.setBound(bound.makespanNs);
  tryPolicies();
  if (!evaluator.isFound()) {
    assert(false && "what the cap allows serially, the list scheduler finds");
    return std::nullopt;
  }
  if (!evaluator.isDone())
    solveProgram();
  if (!evaluator.isDone())
    search();
  if (options.jitter)
    addRobustVariants();
  std::vector<Incumbent> candidates = addSlack();
  const Incumbent &chosen = candidates[preferUnderJitter(candidates)];
  return Outcome{chosen.plan, chosen.makespanNs, bound, evaluator.numSimulations(), chosen.origin};
}

std::optional<Outcome> fsdp::schedule::optimize(const Problem &problem,
                                                const OptimizeOptions &options) {
  assert(!problem.check());
  if (problem.memoryCapBytes && problem.minimumPeak().bytes > *problem.memoryCapBytes)
    return std::nullopt;
  return Optimizer(problem, options).run();
}
