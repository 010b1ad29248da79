//===- Jitter.cpp - How long a plan takes when durations vary -------------===//
//
// Logarithm, exponential and normal numbers are computed here from additions, products, quotients
// and square roots, which are exactly rounded everywhere: libraries differ in the last bit of the
// others, and plans are chosen by these figures.
//
//===----------------------------------------------------------------------===//

#include "Draws.h"
#include "Model/Chunks.h"
#include "Replay.h"

#include <cmath>

using namespace fsdp::schedule;

namespace {

constexpr double kLogOf2 = 0x1.62e42fefa39efp-1;

/// Of a normal positive number, to about 1e-16.
double naturalLog(double x) {
  int exponent;
  double mantissa = std::frexp(x, &exponent); // in [1/2, 1)
  if (mantissa < 0.7071067811865476) {
    mantissa *= 2;
    --exponent;
  }
  // log m = 2 artanh s
  double s = (mantissa - 1) / (mantissa + 1), sum = 0;
  for (int power = 21; power > 0; power -= 2)
    sum = sum * (s * s) + 1.0 / power;
  return exponent * kLogOf2 + 2 * s * sum;
}

/// Where neither the argument nor the result is extreme.
double exponential(double x) {
  double power = std::floor(x / kLogOf2 + 0.5), rest = x - power * kLogOf2, sum = 1;
  for (int i = 16; i > 0; --i)
    sum = 1 + sum * rest / i;
  return std::ldexp(sum, int(power));
}

/// Standard normal numbers by Marsaglia's polar method.
class Normal {
public:
  explicit Normal(uint64_t seed) : draws(seed) {}

  double operator()() {
    if (spare) {
      double value = *spare;
      spare.reset();
      return value;
    }
    double x, y, square;
    do {
      x = uniform();
      y = uniform();
      square = x * x + y * y;
    } while (square >= 1 || square == 0);
    double factor = std::sqrt(-2 * naturalLog(square) / square);
    spare = y * factor;
    return x * factor;
  }

private:
  /// In [-1, 1).
  double uniform() { return 2 * draws.fraction() - 1; }

  Draws draws;
  std::optional<double> spare;
};

/// Log-normal of mean 1.
struct Spread {
  explicit Spread(double relativeDeviation)
      : variance(naturalLog(1 + relativeDeviation * relativeDeviation)),
        deviation(std::sqrt(variance)) {}
  double draw(Normal &normal) const {
    return variance == 0 ? 1 : exponential(deviation * normal() - variance / 2);
  }
  double variance, deviation; // of the logarithm
};

/// The durations of one draw.
class JitteredDurations {
public:
  JitteredDurations(const Problem &problem, const Jitter &jitter)
      : problem(problem), compute(jitter.computeSpread), network(jitter.networkSpread),
        computeNormal(jitter.seed), networkNormal(~jitter.seed),
        endNs(problem.operations.size() + 1), useFactors(problem.uses.size()),
        reductionFactors(problem.reductions.size()) {}

  void draw() {
    for (size_t i = 0; i < problem.operations.size(); ++i)
      endNs[i + 1] = endNs[i] + problem.operations[i].durationNs * compute.draw(computeNormal);
    for (double &factor : useFactors)
      factor = network.draw(networkNormal);
    for (double &factor : reductionFactors)
      factor = network.draw(networkNormal);
  }

  double ofOperations(uint32_t first, uint32_t end) const { return endNs[end] - endNs[first]; }
  // A bucket has the factor of its first member.
  double ofGathers(const GatherBucket &bucket) const { return useFactors[bucket.uses.front()]; }
  double ofReductions(const ReductionBucket &bucket) const {
    return reductionFactors[bucket.reductions.front()];
  }

private:
  const Problem &problem;
  const Spread compute, network;
  Normal computeNormal, networkNormal;
  std::vector<double> endNs; // when computation that never waits has passed each operation
  std::vector<double> useFactors, reductionFactors;
};

/// Those of a plan: what its chunks add to operations does not vary.
class PlanDurations {
public:
  PlanDurations(const Problem &problem, const Plan &plan, const JitteredDurations &drawn)
      : drawn(drawn), nominal{problem, plan.chunked} {
    if (plan.chunked.empty())
      return;
    std::vector<Operation> operations = addChunks(problem, problem.previousUses(), plan.chunked);
    copyNs.resize(operations.size() + 1);
    for (size_t i = 0; i < operations.size(); ++i)
      copyNs[i + 1] = copyNs[i] + operations[i].durationNs - problem.operations[i].durationNs;
  }

  double ofOperations(uint32_t first, uint32_t end) const {
    double ns = drawn.ofOperations(first, end);
    return copyNs.empty() ? ns : ns + copyNs[end] - copyNs[first];
  }
  double ofOperation(uint32_t index) const { return ofOperations(index, index + 1); }
  double ofGathers(const GatherBucket &bucket) const {
    return nominal.ofGathers(bucket) * drawn.ofGathers(bucket);
  }
  double ofReductions(const ReductionBucket &bucket) const {
    return nominal.ofReductions(bucket) * drawn.ofReductions(bucket);
  }
  double ofAcross(const ReductionBucket &bucket) const {
    return nominal.ofAcross(bucket) * drawn.ofReductions(bucket);
  }

private:
  const JitteredDurations &drawn;
  const NominalDurations nominal;
  std::vector<double> copyNs; // by position, what chunks have added until there; empty: nothing
};

} // namespace

static JitteredMakespan summarize(std::vector<double> makespans) {
  JitteredMakespan result;
  for (double makespan : makespans)
    result.meanNs += makespan / double(makespans.size());
  std::sort(makespans.begin(), makespans.end());
  if (!makespans.empty())
    result.percentile95Ns = makespans[(makespans.size() * 95 + 99) / 100 - 1];
  return result;
}

std::vector<JitteredMakespan> fsdp::schedule::simulate(const Problem &problem,
                                                       std::span<const Plan *const> plans,
                                                       const Jitter &jitter) {
  JitteredDurations durations(problem, jitter);
  std::vector<std::vector<double>> makespans(plans.size());
  std::vector<PlanDurations> ofPlans;
  for (const Plan *plan : plans)
    ofPlans.emplace_back(problem, *plan, durations);
  for (uint32_t sample = 0; sample < jitter.samples; ++sample) {
    durations.draw();
    for (size_t i = 0; i < plans.size(); ++i)
      makespans[i].push_back(replay(problem, *plans[i], ofPlans[i]));
  }
  std::vector<JitteredMakespan> results;
  for (std::vector<double> &ofPlan : makespans)
    results.push_back(summarize(std::move(ofPlan)));
  return results;
}

JitteredMakespan fsdp::schedule::simulate(const Problem &problem, const Plan &plan,
                                          const Jitter &jitter) {
  const Plan *plans[] = {&plan};
  return simulate(problem, plans, jitter).front();
}
