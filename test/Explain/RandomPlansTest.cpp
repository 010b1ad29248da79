//===- RandomPlansTest.cpp - Views and reasons hold of plans by chance ----===//

#include "RandomCases.h"

#include "fsdp/Explain/Explanation.h"
#include "fsdp/Explain/ScheduleDiff.h"
#include "fsdp/Explain/StepDifference.h"

using namespace fsdp::explain;
using namespace fsdp::explain::test;
using namespace fsdp::schedule;

namespace {

/// A step under a cap between the least and half as much again, with decisions by chance.
std::optional<Case> makeCase(uint64_t seed) {
  Problem problem = makeRandomProblem(seed);
  Random random(seed);
  double factor = random.real(1, 1.5);
  problem.memoryCapBytes = int64_t(factor * double(problem.minimumPeak().bytes)) + 1;
  // Chunks of scheduled steps are operations, and bytes of these.
  for (Group &group : problem.groups)
    for (Chunk &chunk : group.chunks)
      chunk = {.ranks = 2, .gatherCost = chunk.gatherCost, .isOnHost = chunk.isOnHost};
  std::optional<Case> result = planByChance(problem, random);
  if (!result)
    return std::nullopt;
  // As written by hand: later than need be.
  for (size_t i = result->plan.gathers.size(); i-- > 0;) {
    if (!random.chance(0.3))
      continue;
    Plan later = result->plan;
    ++later.gathers[i].launch;
    if (!verify(problem, later))
      result->plan = later;
  }
  return result;
}

ScheduleView makeView(const Case &test) {
  StepLabels labels;
  labels.operations.resize(test.problem.operations.size());
  return buildView(test.problem, test.plan, simulate(test.problem, test.plan), labels);
}

constexpr uint64_t kNumCases = 2000;

/// Calls `check` with each case that fits, and expects enough of them.
template <typename Check> void forEachCase(Check check) {
  const unsigned numCases =
      forEachSeed(kNumCases, 1, makeCase, [&](const Case &test) { check(test, makeView(test)); });
  EXPECT_GT(numCases, kNumCases / 4);
}

/// The plan with one collective launched elsewhere.
Plan moveLaunch(Plan plan, const CollectiveView &collective, uint32_t launch) {
  if (collective.kind == CollectiveKind::AllGather)
    plan.gathers[collective.bucket].launch = launch;
  else
    plan.reductions[collective.bucket].launch = launch;
  return plan;
}

/// The plan with one more use kept.
Plan keep(Plan plan, uint32_t use) {
  plan.kept[use] = 1;
  if (!plan.chunked.empty())
    plan.chunked[use] = 0;
  for (size_t i = 0; i < plan.gathers.size(); ++i) {
    std::vector<uint32_t> &uses = plan.gathers[i].uses;
    std::erase(uses, use);
    if (uses.empty()) {
      plan.gathers.erase(plan.gathers.begin() + i);
      break;
    }
  }
  return plan;
}

} // namespace

/// The view sums up memory by itself, category by category.
TEST(RandomPlans, PeakIsThatOfThePlan) {
  forEachCase([](const Case &test, const ScheduleView &view) {
    Peak peak = peakOf(test.problem, test.plan);
    EXPECT_EQ(view.getPeakBytes(), peak.bytes);
    EXPECT_EQ(view.peakOperation, peak.operation);
    for (size_t i = 1; i < view.memory.size(); ++i)
      ASSERT_GE(view.memory[i].timeNs, view.memory[i - 1].timeNs);
  });
}

TEST(RandomPlans, ExposedTimeIsWhatComputationWaits) {
  forEachCase([](const Case &test, const ScheduleView &view) {
    double waited = view.operations.back().endNs - view.getComputeNs();
    double exposed = view.getExposedNs(CollectiveKind::AllGather) +
                     view.getExposedNs(CollectiveKind::ReduceScatter) + view.getExposedAcrossNs();
    EXPECT_NEAR(waited, exposed, 1e-6 * view.makespanNs);
  });
}

/// Where nothing stands in the way, an earlier launch is a valid plan; where memory does, it is
/// not.
TEST(RandomPlans, ReasonsOfLaunchesAreTrue) {
  unsigned choices = 0, memories = 0, lanes = 0;
  forEachCase([&](const Case &test, const ScheduleView &view) {
    Explanation explanation = explain(test.problem, test.plan, view);
    for (const LaunchReason &reason : explanation.launches) {
      const CollectiveView &collective = view.collectives[reason.collective];
      auto isValidAt = [&](uint32_t launch) {
        return !verify(test.problem, moveLaunch(test.plan, collective, launch));
      };
      EXPECT_TRUE(isValidAt(reason.earliest));
      if (reason.by == HeldBy::Choice) {
        ++choices;
        EXPECT_LT(reason.earliest, collective.launch);
      } else if (reason.by == HeldBy::Memory) {
        ++memories;
        EXPECT_FALSE(isValidAt(collective.launch - 1));
      } else if (reason.by == HeldBy::Lane && collective.launch > reason.earliest &&
                 !test.problem.oneLane && !test.plan.shareLane) {
        ++lanes;
        Timeline earlier =
            simulate(test.problem, moveLaunch(test.plan, collective, collective.launch - 1));
        const Interval &interval = collective.kind == CollectiveKind::AllGather
                                       ? earlier.gathers[collective.bucket]
                                       : earlier.reductions[collective.bucket];
        EXPECT_GE(interval.startNs, collective.interval.startNs * (1 - 1e-9));
      } else if (reason.by == HeldBy::Start || reason.by == HeldBy::Gradients ||
                 reason.by == HeldBy::Release || reason.by == HeldBy::Store) {
        EXPECT_TRUE(collective.launch == 0 || !isValidAt(collective.launch - 1));
      }
    }
  });
  EXPECT_GT(choices, 50u);
  EXPECT_GT(memories, 50u);
  EXPECT_GT(lanes, 50u);
}

/// A copy that is said to fit is one that a valid plan keeps.
TEST(RandomPlans, ReasonsOfKeepsAreTrue) {
  unsigned fitting = 0, tooLarge = 0;
  forEachCase([&](const Case &test, const ScheduleView &view) {
    for (const KeepReason &reason : explain(test.problem, test.plan, view).keeps) {
      if (reason.kept || !reason.tightest)
        continue;
      bool fits = reason.tightest->bytes >= reason.sizeBytes;
      ++(fits ? fitting : tooLarge);
      Problem problem = test.problem;
      problem.groups[problem.uses[reason.use].group].keep = KeepRule::Free;
      EXPECT_EQ(!verify(problem, keep(test.plan, reason.use)), fits);
    }
  });
  EXPECT_GT(fitting, 50u);
  EXPECT_GT(tooLarge, 50u);
}

TEST(RandomPlans, DoNotDifferFromThemselves) {
  forEachCase([](const Case &test, const ScheduleView &view) {
    std::string text;
    llvm::raw_string_ostream os(text);
    ScheduleSide side = {"plan", test.problem, test.plan, view};
    EXPECT_FALSE(printDiff(side, side, /*all=*/true, os));
  });
}

/// What schedules decide otherwise accounts for all of the difference between their times, and
/// pairs join collectives that have a group in common.
TEST(RandomPlans, DifferencesAddUpToThatOfTheSteps) {
  unsigned numDifferences = 0, numPairs = 0;
  forEachCase([&](const Case &test, const ScheduleView &view) {
    Random random(test.problem.operations.size());
    ListScheduleResult found =
        listSchedule(test.problem, makeRandomDecisions(test.problem, random));
    if (!found.plan)
      return;
    Case other = {test.problem, *found.plan};
    ScheduleView otherView = makeView(other);
    StepComparison comparison = compareSteps({"a", test.problem, test.plan, view},
                                             {"b", other.problem, other.plan, otherView});
    double changeNs = comparison.sameNs;
    for (const StepDifference &difference : comparison.differences)
      changeNs += difference.getChangeNs();
    double stepNs = otherView.makespanNs - view.makespanNs;
    EXPECT_NEAR(changeNs, stepNs, 1e-6 * view.makespanNs);
    numDifferences += comparison.differences.size();
    for (auto [a, b] : comparison.pairs) {
      EXPECT_EQ(view.collectives[a].kind, otherView.collectives[b].kind);
      bool haveCommon = false;
      for (const std::string &group : view.collectives[a].groups)
        haveCommon |= std::count(otherView.collectives[b].groups.begin(),
                                 otherView.collectives[b].groups.end(), group) > 0;
      EXPECT_TRUE(haveCommon);
    }
    numPairs += comparison.pairs.size();
  });
  EXPECT_GT(numDifferences, kNumCases);
  EXPECT_GT(numPairs, kNumCases);
}
