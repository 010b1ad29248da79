//===- Evaluator.cpp - Simulates decisions, keeps the best plans ----------===//

#include "Evaluator.h"

#include "fsdp/Schedule/Simulate.h"

#include <algorithm>
#include <utility>

using namespace fsdp::schedule;

/// The number of plans that are kept for a comparison under jitter.
static constexpr size_t kPoolSize = 8;

Evaluator::Evaluator(const Problem &problem, const OptimizeOptions &options)
    : problem(problem), options(options), schedule(problem, options.maxBucketBytes),
      limit(options.simulationBudget) {}

double Evaluator::evaluate(const Decisions &decisions) {
  ++simulations;
  ListScheduleResult result = schedule(decisions);
  if (!result.plan)
    return std::numeric_limits<double>::infinity();
  launches.resize(problem.uses.size());
  for (const GatherBucket &bucket : result.plan->gathers)
    for (uint32_t use : bucket.uses)
      launches[use] = bucket.launch;
  if (result.makespanNs < decided.makespanNs)
    decided = {decisions, result.makespanNs};
  offer(std::move(*result.plan), result.makespanNs);
  return result.makespanNs;
}

void Evaluator::consider(Plan plan) {
  ++simulations;
  double makespanNs = fsdp::schedule::makespanNs(problem, plan);
  offer(std::move(plan), makespanNs);
}

void Evaluator::offer(Plan &&plan, double makespanNs) {
  // Without jitter only the best plan is kept. A new best must gain more than rounding errors.
  constexpr double kGain = 1 - 1e-9;
  size_t capacity = options.jitter ? kPoolSize : 1;
  if (!pool.empty() && makespanNs >= pool.front().makespanNs * kGain) {
    bool isKnown = std::ranges::find(pool, plan, &Incumbent::plan) != pool.end();
    if (pool.size() < capacity && makespanNs <= pool.front().makespanNs * kNearlyEqual && !isKnown)
      pool.push_back({std::move(plan), makespanNs, origin});
    return;
  }
  pool.insert(pool.begin(), {std::move(plan), makespanNs, origin});
  std::erase_if(
      pool, [&](const Incumbent &other) { return other.makespanNs > makespanNs * kNearlyEqual; });
  if (pool.size() > capacity)
    pool.resize(capacity);
}
