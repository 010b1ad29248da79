//===- Evaluator.cpp - Simulates decisions, keeps the best plans ----------===//

#include "Evaluator.h"

#include "fsdp/Schedule/Simulate.h"

#include <algorithm>
#include <utility>

using namespace fsdp::schedule;

/// The number of plans that are kept for a comparison under jitter.
static constexpr size_t kPoolSize = 8;

namespace {

class Hash {
public:
  void add(uint64_t value) {
    // The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
    state += value + 0x9e3779b97f4a7c15;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
    state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
    state ^= state >> 31;
  }
  uint64_t get() const { return state; }

private:
  uint64_t state = 0;
};

} // namespace

static uint64_t hashOf(const Decisions &decisions) {
  Hash hash;
  // A use is kept if and only if no bucket gathers it, so the buckets suffice.
  for (const Decisions::Gathers &bucket : decisions.gathers) {
    hash.add(bucket.uses.size());
    hash.add(bucket.gate | uint64_t(bucket.byCopyEngine) << 32);
    for (uint32_t use : bucket.uses)
      hash.add(use);
  }
  for (uint8_t is : decisions.chunked)
    hash.add(is);
  for (const std::vector<uint32_t> &bucket : decisions.reductions) {
    hash.add(bucket.size());
    for (uint32_t reduction : bucket)
      hash.add(reduction);
  }
  for (uint32_t gate : decisions.reductionGates)
    hash.add(gate);
  hash.add(decisions.gathersGoFirst);
  hash.add(decisions.shareLane);
  hash.add(uint64_t(decisions.memoryCapBytes.value_or(-1)));
  return hash.get();
}

Evaluator::Evaluator(const Problem &problem, const OptimizeOptions &options)
    : problem(problem), options(options), schedule(problem, options.maxBucketBytes),
      limit(options.simulationBudget) {}

double Evaluator::evaluate(const Decisions &decisions) {
  auto [entry, isNew] = tried.try_emplace(hashOf(decisions), 0.);
  if (!isNew)
    return entry->second;
  ++simulations;
  ListScheduleResult result = schedule(decisions);
  if (!result.plan)
    return entry->second = std::numeric_limits<double>::infinity();
  entry->second = result.makespanNs;
  launches.resize(problem.uses.size());
  for (const GatherBucket &bucket : result.plan->gathers)
    for (uint32_t use : bucket.uses)
      launches[use] = bucket.launch;
  if (result.makespanNs < decided.makespanNs)
    decided = {decisions, result.makespanNs};
  offer(std::move(*result.plan), result.makespanNs);
  return result.makespanNs;
}

void Evaluator::consider(Plan plan, std::string_view name) {
  ++simulations;
  double makespanNs = fsdp::schedule::makespanNs(problem, plan);
  std::string before = std::exchange(origin, std::string(name));
  offer(std::move(plan), makespanNs);
  origin = std::move(before);
}

void Evaluator::offer(Plan &&plan, double makespanNs) {
  // Without jitter only the best plan is kept. A new best must gain more than rounding errors.
  constexpr double kGain = 1 - 1e-9;
  size_t capacity = options.jitter ? kPoolSize : 1;
  if (!pool.empty() && makespanNs >= pool.front().makespanNs * kGain) {
    bool isKnown = std::any_of(pool.begin(), pool.end(),
                               [&](const Incumbent &other) { return other.plan == plan; });
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
