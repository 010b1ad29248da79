//===- CriticalPathTest.cpp - What bounds a step --------------------------===//

#include "RandomCases.h"
#include "TwoLayers.h"

#include "fsdp/Explain/CriticalPath.h"

#include <set>

using namespace fsdp::explain;
using namespace fsdp::explain::test;
using namespace fsdp::schedule;

namespace {

/// A step with decisions by chance. Every second one is on GPUs, every third one has no contention.
std::optional<Case> makeCase(uint64_t seed) {
  Problem problem = makeRandomProblem(seed);
  problem.onGpus = seed % 2;
  if (seed % 3 == 0)
    problem.contention = {};
  Random random(seed);
  return planByChance(problem, random);
}

std::vector<PathSegment> find(const Case &test) {
  return findCriticalPath(test.problem, test.plan, simulate(test.problem, test.plan));
}

constexpr uint64_t kNumCases = 3000;

double getLength(const PathSegment &segment) {
  return segment.interval.endNs - segment.interval.startNs;
}

/// From 0 to the makespan without a gap.
void expectWhole(const std::vector<PathSegment> &path, double makespanNs) {
  double nowNs = 0, sumNs = 0;
  for (const PathSegment &segment : path) {
    ASSERT_EQ(segment.interval.startNs, nowNs);
    ASSERT_GT(getLength(segment), 0);
    EXPECT_GE(segment.slowdownNs, 0);
    EXPECT_LE(segment.slowdownNs, getLength(segment));
    nowNs = segment.interval.endNs;
    sumNs += getLength(segment);
  }
  EXPECT_EQ(nowNs, makespanNs);
  EXPECT_NEAR(sumNs, makespanNs, 1e-9 * makespanNs);
}

} // namespace

/// As in the drawing of TwoLayers.h: the first gather, all operations, the last reduction.
TEST(CriticalPath, OfTwoLayers) {
  std::vector<PathSegment> path =
      findCriticalPath(makeTwoLayers(), makeTwoLayersPlan(), makeTwoLayersTimeline());
  expectWhole(path, 79);
  ASSERT_EQ(path.size(), 7u); // the update of layers.1 is beside the reduction
  EXPECT_EQ(path.front().kind, PathKind::Gather);
  for (uint32_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(path[i].kind, PathKind::Computation);
    EXPECT_EQ(path[i].index, i - 1);
  }
  EXPECT_EQ(path[5].kind, PathKind::Reduction);
  EXPECT_EQ(path[5].index, 4u);
  EXPECT_EQ(path[5].cause, PathCause::Issue);
  EXPECT_EQ(path[6].index, 5u);
}

/// A lane that is never idle: the second gather follows the first one.
TEST(CriticalPath, FollowsABusyLane) {
  Problem problem = makeTwoLayers();
  problem.meshes[0].gatherCost = {2, 0.3}; // 32
  Plan plan = makeTwoLayersPlan();
  std::vector<PathSegment> path = findCriticalPath(problem, plan, simulate(problem, plan));
  ASSERT_GE(path.size(), 2u);
  EXPECT_EQ(path[0].kind, PathKind::Gather);
  EXPECT_EQ(path[1].kind, PathKind::Gather);
  EXPECT_EQ(path[1].index, 1u);
  EXPECT_EQ(path[1].cause, PathCause::Lane);
  EXPECT_EQ(path[1].behind.index, 0u);
}

TEST(CriticalPath, CoversTheWholeStep) {
  unsigned slowed = 0;
  std::set<PathKind> kinds;
  std::set<PathCause> causes;
  const unsigned numCases = forEachSeed(kNumCases, 1, makeCase, [&](const Case &test) {
    std::vector<PathSegment> path = find(test);
    expectWhole(path, simulate(test.problem, test.plan).makespanNs);
    for (const PathSegment &segment : path) {
      kinds.insert(segment.kind);
      causes.insert(segment.cause);
      if (test.problem.contention == Contention{}) {
        EXPECT_EQ(segment.slowdownNs, 0);
      }
      slowed += segment.slowdownNs > 0;
      if (segment.kind == PathKind::Computation && test.plan.chunked.empty()) {
        EXPECT_NEAR(getLength(segment) - segment.slowdownNs,
                    test.problem.operations[segment.index].durationNs, 1e-6);
      }
    }
  });
  EXPECT_GT(numCases, kNumCases / 2);
  EXPECT_GT(slowed, kNumCases);
  EXPECT_EQ(kinds.size(), 4u) << "computation and all collectives";
  EXPECT_EQ(causes.size(), 4u);
}

/// Without contention, the step becomes longer by at least as much as work on its path.
TEST(CriticalPath, BoundsTheStep) {
  unsigned operations = 0, gathers = 0, reductions = 0, across = 0;
  forEachSeed(kNumCases, 3, makeCase, [&](const Case &test) {
    const double makespanNs = simulate(test.problem, test.plan).makespanNs;
    const double moreNs = makespanNs / 7;
    auto expectLonger = [&](const Problem &problem, double byNs) {
      EXPECT_GE(simulate(problem, test.plan).makespanNs, (makespanNs + byNs) * (1 - 1e-9));
    };
    std::vector<PathSegment> path = find(test);
    Problem problem = test.problem;
    double byNs = 0;
    for (const PathSegment &segment : path)
      if (segment.kind == PathKind::Computation) {
        problem.operations[segment.index].durationNs += moreNs;
        byNs += moreNs;
        ++operations;
      }
    expectLonger(problem, byNs);
    // All collectives of one kind take longer, so those on the path do.
    problem = test.problem;
    for (Mesh &mesh : problem.meshes)
      mesh.reduceCost = mesh.reduceCost.plus(moreNs, 0);
    const auto ofKind = [&](PathKind kind) {
      return std::ranges::count(path, kind, &PathSegment::kind);
    };
    reductions += ofKind(PathKind::Reduction);
    expectLonger(problem, moreNs * double(ofKind(PathKind::Reduction)));
    problem = test.problem;
    for (Mesh &mesh : problem.meshes)
      if (mesh.acrossCost)
        mesh.acrossCost = mesh.acrossCost->plus(moreNs, 0);
    across += ofKind(PathKind::AllReduce);
    expectLonger(problem, moreNs * double(ofKind(PathKind::AllReduce)));
    problem = test.problem;
    for (Mesh &mesh : problem.meshes) {
      mesh.gatherCost = mesh.gatherCost.plus(moreNs, 0);
      if (mesh.copyEngineCost)
        mesh.copyEngineCost = mesh.copyEngineCost->plus(moreNs, 0);
    }
    for (Group &group : problem.groups)
      for (Chunk &chunk : group.chunks)
        chunk.gatherCost = chunk.gatherCost.plus(moreNs, 0);
    gathers += ofKind(PathKind::Gather);
    expectLonger(problem, moreNs * double(ofKind(PathKind::Gather)));
  });
  EXPECT_GT(operations, 1000u);
  EXPECT_GT(gathers, 1000u);
  EXPECT_GT(reductions, 1000u);
  EXPECT_GT(across, 50u);
}

/// A wait for a host copy is a segment of its own: before its operation, or after the last one.
TEST(CriticalPath, SplitsWaitsForHostCopies) {
  const fsdp::HostCopyWait waits[] = {
      {1, 0, false, 4}, {4, 2, true, 3}, {5, 1, false, 1}, {6, 0, true, 2}};
  std::vector<PathSegment> path =
      findCriticalPath(makeTwoLayers(), makeTwoLayersPlan(), makeTwoLayersTimeline(), waits);
  expectWhole(path, 79);
  ASSERT_EQ(path.size(), 10u); // operation 4 is not on the path, and so not what it waits for
  EXPECT_EQ(path[2].kind, PathKind::Fetch);
  EXPECT_EQ(getLength(path[2]), 4);
  EXPECT_EQ(path[3].index, 1u);
  EXPECT_EQ(getLength(path[3]), 6);
  EXPECT_EQ(path[7].kind, PathKind::Fetch);
  EXPECT_EQ(path[7].index, 1u);
  EXPECT_EQ(path[8].kind, PathKind::Computation);
  EXPECT_EQ(getLength(path[8]), 2);
  EXPECT_EQ(path[9].kind, PathKind::Store);
  EXPECT_EQ(getLength(path[9]), 2);
}
