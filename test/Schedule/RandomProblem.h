//===- RandomProblem.h - Problems to test with ------------------*- C++ -*-===//

#ifndef FSDP_TEST_SCHEDULE_RANDOMPROBLEM_H
#define FSDP_TEST_SCHEDULE_RANDOMPROBLEM_H

#include "fsdp/Schedule/ListSchedule.h"

#include <random>

namespace fsdp::schedule {

/// Numbers that are equal everywhere, unlike those of the standard library's distributions.
class Random {
public:
  explicit Random(uint64_t seed) : generator(seed) {}
  /// In [least, most].
  int64_t integer(int64_t least, int64_t most) {
    return least + int64_t(generator() % uint64_t(most - least + 1));
  }
  /// In [least, most).
  double real(double least, double most) {
    return least + (most - least) * double(generator() >> 11) * 0x1p-53;
  }
  bool chance(double probability) { return real(0, 1) < probability; }

private:
  std::mt19937_64 generator;
};

struct RandomProblemOptions {
  int64_t minBlocks = 1, maxBlocks = 6;
  int64_t maxOperationsPerBlock = 4; // in forward; as many in backward
};

/// A training step: an embedding, blocks and a head, forward and backward, perhaps twice; a
/// reduction per group; updates at the end or each behind the next block's backward. Sizes are
/// kilobytes to megabytes, durations microseconds to milliseconds; communication takes from a
/// third to five times as long as computation; some have replicas, some may keep chunks, some have
/// copy engines. No memory cap. Deterministic.
Problem makeRandomProblem(uint64_t seed, const RandomProblemOptions &options = {});

/// At most four uses, two reductions and eight operations, with small numbers.
Problem makeTinyProblem(uint64_t seed);

/// Likewise, but not a step: uses and reductions anywhere among at most seven operations.
Problem makeScatteredProblem(uint64_t seed);

/// What of contention and costs a problem has otherwise one factor for, or a line: several factors,
/// measured durations, launches without common latency. Launching as soon as possible is then worse
/// more often than the thresholds of tests say.
void addUnevenCosts(uint64_t seed, Problem &problem);

/// Keeps, buckets, gates and all the rest by chance. They may fit no schedule.
Decisions makeRandomDecisions(const Problem &problem, Random &random);

} // namespace fsdp::schedule

#endif // FSDP_TEST_SCHEDULE_RANDOMPROBLEM_H
