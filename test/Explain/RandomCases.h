//===- RandomCases.h - Steps and plans by chance -----------------*- C++ -*-===//

#ifndef FSDP_TEST_EXPLAIN_RANDOMCASES_H
#define FSDP_TEST_EXPLAIN_RANDOMCASES_H

#include "../Schedule/RandomProblem.h"

#include <gtest/gtest.h>

namespace fsdp::explain::test {

struct Case {
  schedule::Problem problem;
  schedule::Plan plan;
};

/// The problem with a plan by decisions by chance; nullopt if no plan fits its cap.
inline std::optional<Case> planByChance(const schedule::Problem &problem,
                                        schedule::Random &random) {
  schedule::ListScheduleResult found = listSchedule(problem, makeRandomDecisions(problem, random));
  if (!found.plan)
    return std::nullopt;
  return Case{problem, *found.plan};
}

/// Calls `check` with the cases that `makeCase` makes of the seeds 0, `stride`, ... below `end`,
/// until a check fails. Returns their number.
template <typename MakeCase, typename Check>
unsigned forEachSeed(uint64_t end, uint64_t stride, MakeCase makeCase, Check check) {
  unsigned numCases = 0;
  for (uint64_t seed = 0; seed < end && !testing::Test::HasFailure(); seed += stride) {
    SCOPED_TRACE(seed);
    if (std::optional<Case> test = makeCase(seed)) {
      check(*test);
      ++numCases;
    }
  }
  return numCases;
}

} // namespace fsdp::explain::test

#endif // FSDP_TEST_EXPLAIN_RANDOMCASES_H
