//===- Jitter.cpp - The makespan when durations vary ----------------------===//
//
// Logarithms, exponentials and normal quantiles are computed here from sums, products, quotients
// and square roots, which are correctly rounded everywhere. The functions of C libraries differ in
// the last bit, and plans are chosen by these results.
//
//===----------------------------------------------------------------------===//

#include "Draws.h"
#include "Model/LiveBytes.h"
#include "Replay.h"

#include <cmath>
#include <initializer_list>

using namespace fsdp::schedule;

namespace {

constexpr double kLogOf2 = 0x1.62e42fefa39efp-1;

/// The natural logarithm of a normal positive number, with an error of about 1e-16.
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

/// exp(x), for arguments and results that are far from overflow and underflow.
double exponential(double x) {
  double power = std::floor(x / kLogOf2 + 0.5), rest = x - power * kLogOf2, sum = 1;
  for (int i = 16; i > 0; --i)
    sum = 1 + sum * rest / i;
  return std::ldexp(sum, int(power));
}

double polynomial(double x, std::initializer_list<double> coefficients) {
  double sum = 0;
  for (double coefficient : coefficients)
    sum = sum * x + coefficient;
  return sum;
}

/// The value that a standard normal variable exceeds with this probability, with an error of about
/// 1e-9 (Acklam 2003).
double normalAbove(double probability) {
  if (probability > 0.5)
    return -normalAbove(1 - probability);
  if (probability < 0.02425) {
    double x = std::sqrt(-2 * naturalLog(probability));
    return -polynomial(x, {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838,
                           -2.549732539343734, 4.374664141464968, 2.938163982698783}) /
           polynomial(x, {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996,
                          3.754408661907416, 1});
  }
  double x = 0.5 - probability;
  return x *
         polynomial(x * x, {-3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02,
                            1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239}) /
         polynomial(x * x, {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                            6.680131188771972e+01, -1.328068155288572e+01, 1});
}

/// The largest of `count` standard normal variables. The probability that it is below x is the
/// probability that one variable is below x, to the power of `count`.
double drawLargest(Draws &draws, uint32_t count) {
  constexpr double kLeast = 0x1p-53;
  double logarithm = naturalLog(std::max(draws.fraction(), kLeast)) / count;
  return normalAbove(std::max(1 - exponential(logarithm), kLeast));
}

/// A log-normal distribution of mean 1.
struct Spread {
  explicit Spread(double relativeDeviation)
      : variance(naturalLog(1 + relativeDeviation * relativeDeviation)),
        deviation(std::sqrt(variance)) {}
  /// The largest of `count` draws.
  double draw(Draws &draws, uint32_t count = 1) const {
    return variance == 0 ? 1 : exponential(deviation * drawLargest(draws, count) - variance / 2);
  }
  double variance, deviation; // of the logarithm
};

/// The factors of one sample. All plans are simulated with the same sample.
class JitteredDurations {
public:
  JitteredDurations(const Problem &problem, const Jitter &jitter)
      : problem(problem), compute(jitter.computeSpread), network(jitter.networkSpread),
        ranks(jitter.ranks), computeDraws(jitter.seed), networkDraws(~jitter.seed),
        isStretch(problem.events()), endNs(problem.operations.size() + 1),
        useFactors(problem.uses.size()), reductionFactors(problem.reductions.size()) {}

  void draw() {
    double factor = 1;
    for (size_t i = 0; i < problem.operations.size(); ++i) {
      if (i == 0 || isStretch[i])
        factor = compute.draw(computeDraws, ranks);
      endNs[i + 1] = endNs[i] + problem.operations[i].durationNs * factor;
    }
    for (double &factor : useFactors)
      factor = network.draw(networkDraws);
    for (double &factor : reductionFactors)
      factor = network.draw(networkDraws);
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
  const uint32_t ranks;
  Draws computeDraws, networkDraws;
  std::vector<uint8_t> isStretch; // by position: whether a stretch begins
  std::vector<double> endNs; // by position: the time at which computation without waits reaches it
  std::vector<double> useFactors, reductionFactors;
};

/// The durations of a plan in a sample. The time to make chunks does not vary.
class PlanDurations {
public:
  PlanDurations(const Problem &problem, const Plan &plan, const JitteredDurations &drawn)
      : drawn(drawn), nominal{problem, plan.chunked} {
    std::vector<Operation> operations = addChunks(problem, plan.chunked);
    copyNs.resize(operations.size() + 1);
    for (size_t i = 0; i < operations.size(); ++i)
      copyNs[i + 1] = copyNs[i] + operations[i].durationNs - problem.operations[i].durationNs;
  }

  double ofOperations(uint32_t first, uint32_t end) const {
    return drawn.ofOperations(first, end) + copyNs[end] - copyNs[first];
  }
  CollectiveDuration ofGathers(const GatherBucket &bucket) const {
    return scale(nominal.ofGathers(bucket), drawn.ofGathers(bucket));
  }
  CollectiveDuration ofReductions(const ReductionBucket &bucket) const {
    return scale(nominal.ofReductions(bucket), drawn.ofReductions(bucket));
  }
  CollectiveDuration ofAcross(const ReductionBucket &bucket) const {
    return scale(nominal.ofAcross(bucket), drawn.ofReductions(bucket));
  }

private:
  static CollectiveDuration scale(const CollectiveDuration &duration, double factor) {
    return {duration.latencyNs * factor, duration.bytesNs * factor};
  }

  const JitteredDurations &drawn;
  const NominalDurations nominal;
  std::vector<double> copyNs; // by position: time to make chunks so far
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
