//===- UndisturbedTest.cpp - Durations without contention -----------------===//

#include "fsdp/Explain/Undisturbed.h"

#include "../Schedule/RandomProblem.h"

#include <gtest/gtest.h>

using namespace fsdp::explain;
using namespace fsdp::schedule;

namespace {

struct Collectives {
  std::vector<RunCollective> run;
  std::vector<double> nominalNs;

  void add(RunCollective::Kind kind, Interval interval, CollectiveDuration nominal) {
    run.push_back({kind, interval, nominal.latencyNs});
    nominalNs.push_back(nominal.totalNs());
  }
};

Collectives collect(const Problem &problem, const Plan &plan, const Timeline &timeline) {
  using Kind = RunCollective::Kind;
  Collectives collectives;
  for (size_t i = 0; i < plan.gathers.size(); ++i) {
    const GatherBucket &bucket = plan.gathers[i];
    collectives.add(bucket.byCopyEngine ? Kind::CopyEngineGather : Kind::Gather,
                    timeline.gathers[i],
                    problem.ofGather(bucket.uses, plan.chunked, bucket.byCopyEngine));
  }
  for (size_t i = 0; i < plan.reductions.size(); ++i) {
    const std::vector<uint32_t> &members = plan.reductions[i].reductions;
    collectives.add(Kind::Reduction, timeline.reductions[i], problem.ofReduction(members));
    if (timeline.across[i])
      collectives.add(Kind::Across, *timeline.across[i], problem.ofAcross(members));
  }
  return collectives;
}

} // namespace

// From the timeline of a simulated step follow the durations with which it was simulated.
TEST(Undisturbed, IsTheInverseOfTheSimulation) {
  size_t slower = 0;
  for (uint64_t seed = 0; seed < 1000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Problem problem = makeRandomProblem(seed);
    addUnevenCosts(seed, problem);
    for (Group &group : problem.groups) // the copies of chunks would be parts of operations
      group.chunks.clear();
    Random random(seed);
    const std::optional<Plan> plan =
        listSchedule(problem, makeRandomDecisions(problem, random)).plan;
    if (!plan)
      continue;
    const Timeline timeline = simulate(problem, *plan);
    const Collectives collectives = collect(problem, *plan, timeline);
    const UndisturbedStep step =
        removeContention(problem.contention, timeline.operations, collectives.run);
    const double roundingNs = 1e-9 * timeline.makespanNs;
    for (size_t i = 0; i < problem.operations.size(); ++i)
      EXPECT_NEAR(step.operations[i].ns, problem.operations[i].durationNs, roundingNs) << i;
    for (size_t i = 0; i < collectives.run.size(); ++i) {
      EXPECT_NEAR(step.collectives[i].ns, collectives.nominalNs[i], roundingNs) << i;
      slower += step.collectives[i].measuredNs > 1.01 * collectives.nominalNs[i];
    }
  }
  EXPECT_GT(slower, 1000u);
}

// An operation from 0 to 100, a gather from 60 to 80 and a reduction from 70 to 130.
TEST(Undisturbed, SaysHowMuchRanBeside) {
  Contention contention;
  contention.setOfComputation(2);
  const Interval operations[] = {{0, 100}, {130, 140}};
  const RunCollective collectives[] = {{RunCollective::Kind::Gather, {60, 80}, 5},
                                       {RunCollective::Kind::Reduction, {70, 130}, 5}};
  const UndisturbedStep step = removeContention(contention, operations, collectives);
  EXPECT_DOUBLE_EQ(step.operations[0].besideNs, 40);
  EXPECT_DOUBLE_EQ(step.operations[0].ns, 80);
  EXPECT_FALSE(step.operations[0].isAlone());
  EXPECT_TRUE(step.operations[0].isKnown());
  EXPECT_TRUE(step.operations[1].isAlone());
  EXPECT_DOUBLE_EQ(step.collectives[0].besideNs, 20);
  EXPECT_DOUBLE_EQ(step.collectives[1].besideNs, 30);
  // At a standstill half of the operation's time would have to do.
  contention.setOfComputation(100);
  const Interval mostlyBeside[] = {{40, 100}};
  EXPECT_FALSE(removeContention(contention, mostlyBeside, collectives).operations[0].isKnown());
}
