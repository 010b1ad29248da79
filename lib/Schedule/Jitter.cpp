//===- Jitter.cpp - How long a plan takes when durations vary -------------===//
//
// Logarithm, exponential and normal numbers are computed here from additions, products, quotients
// and square roots, which are exactly rounded everywhere: libraries differ in the last bit of the
// others, and plans are chosen by these figures.
//
//===----------------------------------------------------------------------===//

#include "Replay.h"

#include <cmath>
#include <random>

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
  explicit Normal(uint64_t seed) : generator(seed) {}

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
  double uniform() { return double(int64_t(generator() >> 11) - (int64_t(1) << 52)) * 0x1p-52; }

  std::mt19937_64 generator;
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

struct JitteredDurations {
  NominalDurations nominal;
  Spread compute, network;
  Normal normal;

  double ofOperation(uint32_t index) { return nominal.ofOperation(index) * compute.draw(normal); }
  double ofGathers(const GatherBucket &bucket) {
    return nominal.ofGathers(bucket) * network.draw(normal);
  }
  double ofReductions(const ReductionBucket &bucket) {
    return nominal.ofReductions(bucket) * network.draw(normal);
  }
};

} // namespace

JitteredMakespan fsdp::schedule::simulate(const Problem &problem, const Plan &plan,
                                          const Jitter &jitter) {
  JitteredDurations durations{
      {problem}, Spread(jitter.computeSpread), Spread(jitter.networkSpread), Normal(jitter.seed)};
  std::vector<double> makespans(jitter.samples);
  JitteredMakespan result;
  for (double &makespan : makespans) {
    makespan = replay(problem, plan, durations);
    result.meanNs += makespan / jitter.samples;
  }
  if (makespans.empty())
    return result;
  std::sort(makespans.begin(), makespans.end());
  result.percentile95Ns = makespans[(makespans.size() * 95 + 99) / 100 - 1];
  return result;
}
