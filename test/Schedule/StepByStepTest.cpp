//===- StepByStepTest.cpp - A second simulator, to compare with -----------===//

#include "RandomProblem.h"
#include "fsdp/Schedule/Simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>

using namespace fsdp::schedule;

namespace {

/// Executes a plan as a program, instruction by instruction, and lets time pass from one change of
/// any speed to the next.
class StepByStep {
public:
  StepByStep(const Problem &problem, const Plan &plan) : problem(problem), plan(plan) {
    for (uint32_t position = 0; position < problem.operations.size(); ++position)
      append(position);
  }
  double run();

private:
  enum class Kind { LaunchGathers, LaunchReductions, WaitForGathers, WaitForReductions, Compute };
  struct Instruction {
    Kind kind;
    uint32_t index;
  };
  struct Collective {
    bool isGather;
    uint32_t index;
    double remainingNs;
  };

  void append(uint32_t position);
  void launch(const Instruction &instruction);
  bool isDone(const Instruction &instruction) const;
  /// Lets time pass until a lane's or, if it runs, the compute stream's work is done.
  void pass(double *computeNs);

  const Problem &problem;
  const Plan &plan;
  std::vector<Instruction> program;
  std::deque<Collective> lanes[2];
  std::vector<bool> gathersDone, reductionsDone;
  double nowNs = 0;
};

} // namespace

void StepByStep::append(uint32_t position) {
  for (uint32_t i = 0; i < plan.reductions.size(); ++i)
    if (plan.reductions[i].wait == position && plan.reductions[i].launch < position)
      program.push_back({Kind::WaitForReductions, i});
  for (uint32_t i = 0; i < plan.reductions.size(); ++i)
    if (plan.reductions[i].launch == position) {
      program.push_back({Kind::LaunchReductions, i});
      if (plan.reductions[i].wait == position)
        program.push_back({Kind::WaitForReductions, i});
    }
  for (uint32_t i = 0; i < plan.gathers.size(); ++i)
    if (plan.gathers[i].launch == position)
      program.push_back({Kind::LaunchGathers, i});
  for (uint32_t i = 0; i < plan.gathers.size(); ++i)
    for (uint32_t use : plan.gathers[i].uses)
      if (problem.uses[use].first == position)
        program.push_back({Kind::WaitForGathers, i});
  program.push_back({Kind::Compute, position});
}

void StepByStep::launch(const Instruction &instruction) {
  int64_t bytes = 0;
  if (instruction.kind == Kind::LaunchGathers) {
    for (uint32_t use : plan.gathers[instruction.index].uses)
      bytes += problem.groups[problem.uses[use].group].gatheredBytes;
    lanes[0].push_back({true, instruction.index, problem.gatherCost.durationNs(bytes)});
    return;
  }
  for (uint32_t reduction : plan.reductions[instruction.index].reductions)
    bytes += problem.reductions[reduction].inputBytes;
  lanes[problem.oneLane || plan.shareLane ? 0 : 1].push_back(
      {false, instruction.index, problem.reduceCost.durationNs(bytes)});
}

bool StepByStep::isDone(const Instruction &instruction) const {
  return instruction.kind == Kind::WaitForGathers ? gathersDone[instruction.index]
                                                  : reductionsDone[instruction.index];
}

void StepByStep::pass(double *computeNs) {
  bool areBothBusy = !lanes[0].empty() && !lanes[1].empty();
  bool isAnyBusy = !lanes[0].empty() || !lanes[1].empty();
  double laneSpeed = areBothBusy ? 1 / problem.laneContention : 1;
  double computeSpeed = isAnyBusy ? 1 / problem.computeContention : 1;
  double passedNs = INFINITY;
  for (const std::deque<Collective> &lane : lanes)
    if (!lane.empty())
      passedNs = std::min(passedNs, lane.front().remainingNs / laneSpeed);
  if (computeNs)
    passedNs = std::min(passedNs, *computeNs / computeSpeed);
  ASSERT_TRUE(std::isfinite(passedNs)) << "a deadlock";
  nowNs += passedNs;
  constexpr double kDone = 1e-6;
  for (std::deque<Collective> &lane : lanes)
    if (!lane.empty() && (lane.front().remainingNs -= passedNs * laneSpeed) < kDone) {
      (lane.front().isGather ? gathersDone : reductionsDone)[lane.front().index] = true;
      lane.pop_front();
    }
  if (computeNs && (*computeNs -= passedNs * computeSpeed) < kDone)
    *computeNs = 0;
}

double StepByStep::run() {
  gathersDone.resize(plan.gathers.size());
  reductionsDone.resize(plan.reductions.size());
  for (const Instruction &instruction : program) {
    switch (instruction.kind) {
    case Kind::LaunchGathers:
    case Kind::LaunchReductions:
      launch(instruction);
      break;
    case Kind::WaitForGathers:
    case Kind::WaitForReductions:
      while (!isDone(instruction) && !testing::Test::HasFatalFailure())
        pass(nullptr);
      break;
    case Kind::Compute: {
      double remainingNs = problem.operations[instruction.index].durationNs;
      while (remainingNs > 0 && !testing::Test::HasFatalFailure())
        pass(&remainingNs);
      break;
    }
    }
  }
  while (!(lanes[0].empty() && lanes[1].empty()) && !testing::Test::HasFatalFailure())
    pass(nullptr);
  return nowNs;
}

// No plan deadlocks, and two simulators agree on when it ends.
TEST(StepByStep, AgreesWithTheSimulator) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeRandomProblem(seed);
    Random random(seed);
    problem.memoryCapBytes = problem.minimumPeak().bytes * random.integer(10, 15) / 10;
    std::optional<Plan> plan = listSchedule(problem, makeRandomDecisions(problem, random)).plan;
    if (!plan)
      continue;
    double expectedNs = StepByStep(problem, *plan).run();
    ASSERT_FALSE(HasFatalFailure());
    ASSERT_NEAR(makespanNs(problem, *plan), expectedNs, expectedNs * 1e-9);
    Timeline timeline = simulate(problem, *plan);
    ASSERT_EQ(timeline.makespanNs, makespanNs(problem, *plan));
    // Computation, and what it waited for, is all that there is until the last operation's end.
    double exposedNs = 0, computedNs = 0;
    for (double ns : timeline.exposedGatherNs)
      exposedNs += ns;
    for (double ns : timeline.exposedReductionNs)
      exposedNs += ns;
    for (const Interval &operation : timeline.operations)
      computedNs += operation.endNs - operation.startNs;
    ASSERT_NEAR(timeline.operations.back().endNs, computedNs + exposedNs, expectedNs * 1e-9);
  }
}
