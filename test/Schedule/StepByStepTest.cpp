//===- StepByStepTest.cpp - A second simulator, to compare with -----------===//

#include "RandomProblem.h"
#include "fsdp/Schedule/Simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

using namespace fsdp::schedule;

namespace {

/// Executes a plan as a program, instruction by instruction, and lets time pass from one change of
/// any speed to the next.
class StepByStep {
public:
  StepByStep(const Problem &problem, const Plan &plan)
      : problem(problem), plan(plan), previous(problem.previousUses()) {
    for (uint32_t position = 0; position < problem.operations.size(); ++position)
      append(position);
  }
  double run();

private:
  enum class Kind {
    LaunchGathers,
    LaunchReductions,
    WaitForGathers,
    WaitForReductions,
    WaitForReplicas,
    Compute
  };
  struct Instruction {
    Kind kind;
    uint32_t index;
  };
  enum Lane { Gathers, Reductions, Replicas };
  struct Collective {
    Lane kind; // reductions may run on the gathers' lane
    uint32_t index;
    double latencyNs, bytesNs; // that remain
    uint32_t number;           // of its launch, over all lanes
    bool hasBegun = false;
  };

  void append(uint32_t position);
  void launch(const Instruction &instruction);
  void push(int lane, Lane kind, uint32_t index, const CollectiveCost &cost,
            const std::vector<int64_t> &memberBytes);
  bool isDone(const Instruction &instruction) const;
  void beginAll();
  bool isBusy(int lane) const { return !lanes[lane].empty() && lanes[lane].front().hasBegun; }
  bool isMoving(int lane) const { return isBusy(lane) && lanes[lane].front().latencyNs == 0; }
  double findSpeed(int lane, bool isComputing) const;
  double findComputeSpeed() const;
  /// Lets time pass until a lane's or, if it runs, the compute stream's work is done.
  void pass(double *computeNs);

  const Problem &problem;
  const Plan &plan;
  const std::vector<int32_t> previous;
  std::vector<Instruction> program;
  std::deque<Collective> lanes[3];
  std::vector<bool> done[3]; // by kind and bucket
  uint32_t numLaunched = 0, numBegun = 0;
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
  for (uint32_t i = 0; i < plan.reductions.size(); ++i)
    for (uint32_t reduction : plan.reductions[i].reductions)
      if (problem.meshOfReduction(reduction).acrossCost &&
          problem.reductions[reduction].update == position)
        program.push_back({Kind::WaitForReplicas, i});
  program.push_back({Kind::Compute, position});
}

void StepByStep::push(int lane, Lane kind, uint32_t index, const CollectiveCost &cost,
                      const std::vector<int64_t> &memberBytes) {
  Collective collective{kind, index, 0, 0, numLaunched++};
  std::vector<int64_t> launches = memberBytes;
  if (problem.coalesces)
    launches = {std::accumulate(memberBytes.begin(), memberBytes.end(), int64_t(0))};
  for (int64_t bytes : launches) {
    collective.latencyNs += cost.of(bytes).latencyNs;
    collective.bytesNs += cost.nsPerByte * double(bytes);
  }
  lanes[lane].push_back(collective);
}

void StepByStep::launch(const Instruction &instruction) {
  std::vector<int64_t> bytes, reducedBytes;
  if (instruction.kind == Kind::LaunchGathers) {
    const GatherBucket &bucket = plan.gathers[instruction.index];
    for (uint32_t use : bucket.uses)
      bytes.push_back(problem.groups[problem.uses[use].group].gatheredBytes);
    const uint32_t first = bucket.uses.front(); // all drawn groups' chunks have the same costs
    const Mesh &mesh = problem.meshOfUse(first);
    push(0, Gathers, instruction.index,
         plan.isChunked(first)
             ? problem.groups[problem.uses[first].group].chunks[plan.chunked[first] - 1].gatherCost
         : bucket.byCopyEngine ? *mesh.copyEngineCost
                               : mesh.gatherCost,
         bytes);
    return;
  }
  const std::vector<uint32_t> &members = plan.reductions[instruction.index].reductions;
  for (uint32_t reduction : members) {
    bytes.push_back(problem.reductions[reduction].inputBytes);
    reducedBytes.push_back(problem.reductions[reduction].outputBytes);
  }
  const Mesh &mesh = problem.meshOfReduction(members.front());
  push(problem.oneLane || plan.shareLane ? 0 : 1, Reductions, instruction.index, mesh.reduceCost,
       bytes);
  if (mesh.acrossCost)
    push(2, Replicas, instruction.index, *mesh.acrossCost, reducedBytes);
}

/// Begins what may begin: over replicas, only once the reduction is done; on GPUs, only once all
/// that was launched before has begun.
void StepByStep::beginAll() {
  for (bool isAny = true; isAny;) {
    isAny = false;
    for (std::deque<Collective> &lane : lanes) {
      if (lane.empty() || lane.front().hasBegun)
        continue;
      Collective &front = lane.front();
      bool isReady = front.kind != Replicas || done[Reductions][front.index];
      if (!isReady || (problem.onGpus && front.number != numBegun))
        continue;
      front.hasBegun = isAny = true;
      ++numBegun;
    }
  }
}

double StepByStep::findSpeed(int lane, bool isComputing) const {
  if (!isMoving(lane))
    return 1;
  double slowdown = 1;
  for (int other = 0; other < 3; ++other)
    if (other != lane && isMoving(other))
      slowdown +=
          (other == 2 || lane == 2 ? problem.contention.replicas : problem.contention.lanes) - 1;
  return 1 / slowdown / (isComputing ? problem.contention.computation : 1);
}

double StepByStep::findComputeSpeed() const {
  const Contention &contention = problem.contention;
  int numByKernels = 0;
  double slowdown = 1;
  for (int lane = 0; lane < 3; ++lane)
    if (isBusy(lane)) {
      const Collective &busy = lanes[lane].front();
      const bool byCopyEngine = busy.kind == Gathers && plan.gathers[busy.index].byCopyEngine;
      numByKernels += !byCopyEngine;
      slowdown = std::max(slowdown, byCopyEngine           ? contention.copyEngines
                                    : busy.kind == Gathers ? contention.gathers
                                                           : contention.reductions);
    }
  return 1 / (numByKernels > 1 ? contention.several : slowdown);
}

bool StepByStep::isDone(const Instruction &instruction) const {
  Lane kind = instruction.kind == Kind::WaitForGathers      ? Gathers
              : instruction.kind == Kind::WaitForReductions ? Reductions
                                                            : Replicas;
  return done[kind][instruction.index];
}

void StepByStep::pass(double *computeNs) {
  beginAll();
  bool areBusy[3] = {isBusy(0), isBusy(1), isBusy(2)};
  const bool isComputing = computeNs != nullptr;
  double speeds[3] = {findSpeed(0, isComputing), findSpeed(1, isComputing),
                      findSpeed(2, isComputing)};
  double computeSpeed = findComputeSpeed();
  double passedNs = INFINITY;
  auto remaining = [&](int lane) -> double & {
    Collective &front = lanes[lane].front();
    return front.latencyNs > 0 ? front.latencyNs : front.bytesNs;
  };
  for (int lane = 0; lane < 3; ++lane)
    if (areBusy[lane])
      passedNs = std::min(passedNs, remaining(lane) / speeds[lane]);
  if (computeNs)
    passedNs = std::min(passedNs, *computeNs / computeSpeed);
  ASSERT_TRUE(std::isfinite(passedNs)) << "a deadlock";
  nowNs += passedNs;
  constexpr double kDone = 1e-6;
  for (int i = 0; i < 3; ++i) {
    if (!areBusy[i])
      continue;
    Collective &front = lanes[i].front();
    const bool isLatency = front.latencyNs > 0;
    if ((remaining(i) -= passedNs * speeds[i]) >= kDone)
      continue;
    if (isLatency)
      front.latencyNs = 0;
    if (!isLatency || front.bytesNs == 0) {
      done[front.kind][front.index] = true;
      lanes[i].pop_front();
    }
  }
  if (computeNs && (*computeNs -= passedNs * computeSpeed) < kDone)
    *computeNs = 0;
}

double StepByStep::run() {
  done[Gathers].resize(plan.gathers.size());
  done[Reductions].resize(plan.reductions.size());
  done[Replicas].resize(plan.reductions.size());
  for (const Instruction &instruction : program) {
    switch (instruction.kind) {
    case Kind::LaunchGathers:
    case Kind::LaunchReductions:
      launch(instruction);
      break;
    case Kind::WaitForGathers:
    case Kind::WaitForReductions:
    case Kind::WaitForReplicas:
      while (!isDone(instruction) && !testing::Test::HasFatalFailure())
        pass(nullptr);
      break;
    case Kind::Compute: {
      double remainingNs = problem.operations[instruction.index].durationNs;
      for (uint32_t use = 0; use < problem.uses.size(); ++use)
        if (plan.isChunked(use) && problem.uses[previous[use]].last == instruction.index)
          remainingNs +=
              problem.groups[problem.uses[use].group].chunks[plan.chunked[use] - 1].copyNs;
      while (remainingNs > 0 && !testing::Test::HasFatalFailure())
        pass(&remainingNs);
      break;
    }
    }
  }
  while (!(lanes[0].empty() && lanes[1].empty() && lanes[2].empty()) &&
         !testing::Test::HasFatalFailure())
    pass(nullptr);
  return nowNs;
}

// No plan deadlocks, and two simulators agree on when it ends.
TEST(StepByStep, AgreesWithTheSimulator) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = makeRandomProblem(seed);
    if (seed % 2)
      addUnevenCosts(seed, problem);
    problem.onGpus = seed % 3 == 0;
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
    for (double ns : timeline.exposedAcrossNs)
      exposedNs += ns;
    for (const Interval &operation : timeline.operations)
      computedNs += operation.endNs - operation.startNs;
    ASSERT_NEAR(timeline.operations.back().endNs, computedNs + exposedNs, expectedNs * 1e-9);
  }
}
