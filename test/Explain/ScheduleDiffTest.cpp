//===- ScheduleDiffTest.cpp - Align and compare the events of two plans ---===//

#include "TwoLayers.h"

#include "fsdp/Explain/ScheduleDiff.h"
#include "fsdp/Explain/StepDifference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

using namespace fsdp::explain;
using namespace fsdp::explain::test;
using namespace fsdp::schedule;
using testing::HasSubstr;

static std::vector<ScheduleEvent> makeEvents(const std::string &names) {
  std::vector<ScheduleEvent> events;
  for (char name : names) {
    ScheduleEvent event;
    event.groups = {std::string(1, name)};
    events.push_back(event);
  }
  return events;
}

/// "a b- c+": common events, then those of one side.
static std::string alignNames(const std::string &left, const std::string &right) {
  std::string text;
  for (const AlignedEvent &pair : align(makeEvents(left), makeEvents(right)))
    text += pair.left && pair.right ? std::string(1, left[*pair.left]) + " "
            : pair.left             ? std::string(1, left[*pair.left]) + "- "
                                    : std::string(1, right[*pair.right]) + "+ ";
  return text;
}

/// Length of a longest common subsequence, by the textbook's table.
static size_t getCommon(const std::string &left, const std::string &right) {
  std::vector<std::vector<size_t>> best(left.size() + 1, std::vector<size_t>(right.size() + 1));
  for (size_t i = 1; i <= left.size(); ++i)
    for (size_t j = 1; j <= right.size(); ++j)
      best[i][j] = left[i - 1] == right[j - 1] ? best[i - 1][j - 1] + 1
                                               : std::max(best[i - 1][j], best[i][j - 1]);
  return best[left.size()][right.size()];
}

TEST(AlignEvents, KeepsWhatIsCommon) {
  EXPECT_EQ(alignNames("", ""), "");
  EXPECT_EQ(alignNames("abc", "abc"), "a b c ");
  EXPECT_EQ(alignNames("abc", ""), "a- b- c- ");
  EXPECT_EQ(alignNames("", "ab"), "a+ b+ ");
  EXPECT_EQ(alignNames("abd", "acd"), "a b- c+ d ");
}

TEST(AlignEvents, IsALongestCommonSubsequence) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string left, right;
    for (size_t i = random() % 12; i > 0; --i)
      left += static_cast<char>('a' + random() % 4);
    for (size_t i = random() % 12; i > 0; --i)
      right += static_cast<char>('a' + random() % 4);
    size_t common = 0, nextLeft = 0, nextRight = 0;
    for (const AlignedEvent &pair : align(makeEvents(left), makeEvents(right))) {
      if (pair.left) {
        ASSERT_EQ(*pair.left, nextLeft++);
      }
      if (pair.right) {
        ASSERT_EQ(*pair.right, nextRight++);
      }
      if (!pair.left || !pair.right)
        continue;
      ASSERT_EQ(left[*pair.left], right[*pair.right]);
      ++common;
    }
    ASSERT_EQ(nextLeft, left.size());
    ASSERT_EQ(nextRight, right.size());
    ASSERT_EQ(common, getCommon(left, right)) << left << " " << right;
  }
}

namespace {

struct Diff : testing::Test {
  Problem problem = makeTwoLayers();
  Plan plan = makeTwoLayersPlan(), other = plan;
  std::string text;

  bool differs(bool all = false, StepLabels otherLabels = makeTwoLayersLabels()) {
    ScheduleView view = makeTwoLayersView(problem, plan);
    ScheduleView otherView =
        buildView(problem, other, makeTwoLayersTimeline(), std::move(otherLabels));
    text.clear();
    llvm::raw_string_ostream os(text);
    return printDiff({"a", problem, plan, view}, {"b", problem, other, otherView}, all, os);
  }
};

} // namespace

TEST_F(Diff, EqualSchedulesHaveNothingToShow) {
  EXPECT_FALSE(differs());
  EXPECT_THAT(text, HasSubstr("0 events differ, 12 are equal"));
  EXPECT_FALSE(differs(/*all=*/true));
  EXPECT_THAT(text, HasSubstr("gather           layers.1  forward   layers.0.up"));
}

TEST_F(Diff, ShowsWhatMoved) {
  other.gathers[2].launch = 3;
  EXPECT_TRUE(differs());
  EXPECT_THAT(text, HasSubstr("~  gather  layers.0  backward  layers.1.up  27.0 ns  layers.0.up"));
  EXPECT_THAT(text, HasSubstr("1 events differ, 11 are equal"));
}

/// An update that stands elsewhere does not shift what follows it.
TEST_F(Diff, UpdatesMoveWithoutMovingTheRest) {
  StepLabels labels = makeTwoLayersLabels();
  std::swap(labels.operations[4], labels.operations[5]);
  EXPECT_TRUE(differs(false, labels));
  EXPECT_THAT(text, HasSubstr("~  update  layers.1"));
  EXPECT_THAT(text, HasSubstr("1 events differ, 11 are equal"));
}

TEST_F(Diff, ShowsWhatOnlyOneHas) {
  other.gathers[0].uses = {0, 1};
  other.gathers.erase(other.gathers.begin() + 1);
  EXPECT_TRUE(differs());
  EXPECT_THAT(text, HasSubstr("-  gather  layers.0 "));
  EXPECT_THAT(text, HasSubstr("+  gather  layers.0 + layers.1 "));
}

TEST_F(Diff, DifferentMeshesAreDifferent) {
  StepLabels labels = makeTwoLayersLabels();
  labels.facts[0].second = "dp = 4";
  EXPECT_TRUE(differs(false, labels));
  EXPECT_THAT(text, HasSubstr("mesh: a 'dp = 2', b 'dp = 4'"));
  EXPECT_THAT(text, HasSubstr("0 events differ"));
}

TEST_F(Diff, DifferentStepsAreSaidToBe) {
  StepLabels labels = makeTwoLayersLabels();
  labels.operations[0].module = "embedding";
  EXPECT_TRUE(differs(false, labels));
  EXPECT_THAT(text, HasSubstr("the steps have different operations (6 and 6)"));
}

namespace {

struct Comparison : Diff {
  StepComparison compare(const Timeline &timeline = makeTwoLayersTimeline()) {
    view = makeTwoLayersView(problem, plan);
    otherView = buildView(problem, other, timeline, makeTwoLayersLabels());
    return compareSteps({"a", problem, plan, view}, {"b", problem, other, otherView});
  }
  ScheduleView view, otherView;
};

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

} // namespace

TEST_F(Comparison, EqualSchedulesDecideNothingOtherwise) {
  StepComparison comparison = compare();
  EXPECT_TRUE(comparison.differences.empty());
  EXPECT_EQ(comparison.sameNs, 0);
  EXPECT_EQ(comparison.pairs, (Pairs{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}}));
}

/// Two gathers and the one that takes their place are one difference, which costs what computation
/// waits more for it.
TEST_F(Comparison, ABucketBelongsToItsParts) {
  other.gathers = {{{0, 1}, 0}, {{2}, 2}};
  Timeline timeline = makeTwoLayersTimeline();
  timeline.gathers = {{0, 12}, {32, 39}};
  timeline.exposedGatherNs = {12, 0};
  StepComparison comparison = compare(timeline);
  ASSERT_EQ(comparison.differences.size(), 1u);
  const StepDifference &difference = comparison.differences[0];
  EXPECT_EQ(difference.what, "gather buckets");
  EXPECT_EQ(difference.left, "2 gathers, the first issued before layers.0.up at 0 s");
  EXPECT_EQ(difference.right, "1 gather of 2 groups, issued before layers.0.up at 0 s");
  EXPECT_EQ(difference.leftCollectives, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(difference.rightCollectives, std::vector<uint32_t>{0});
  EXPECT_EQ(difference.getChangeNs(), 5);
  EXPECT_EQ(difference.laneNs, -2);
  EXPECT_EQ(comparison.pairs, (Pairs{{0, 0}, {1, 0}, {2, 1}, {3, 2}, {4, 3}}));
}

TEST_F(Comparison, WhatIsKeptIsNotGatheredAgain) {
  other.kept[2] = 1;
  other.gathers.pop_back();
  Timeline timeline = makeTwoLayersTimeline();
  timeline.gathers.pop_back();
  timeline.exposedGatherNs.pop_back();
  StepComparison comparison = compare(timeline);
  ASSERT_EQ(comparison.differences.size(), 1u);
  EXPECT_EQ(comparison.differences[0].what, "kept");
  EXPECT_EQ(comparison.differences[0].names, std::vector<std::string>{"layers.0"});
  EXPECT_EQ(comparison.differences[0].right, "kept");
  std::swap(plan, other);
  view = buildView(problem, plan, timeline, makeTwoLayersLabels());
  otherView = makeTwoLayersView(problem, other);
  comparison = compareSteps({"a", problem, plan, view}, {"b", problem, other, otherView});
  ASSERT_EQ(comparison.differences.size(), 1u);
  EXPECT_EQ(comparison.differences[0].what, "gathered again");
}

TEST_F(Comparison, TheSameLaunchElsewhereIsADifference) {
  other.gathers[2].launch = 3;
  StepComparison comparison = compare();
  ASSERT_EQ(comparison.differences.size(), 1u);
  EXPECT_EQ(comparison.differences[0].what, "gather launch");
  EXPECT_EQ(comparison.differences[0].part, StepPart::Backward);
}

/// Groups that are cut otherwise have parameters in common.
TEST_F(Comparison, PairsFollowParameters) {
  Problem joined = problem;
  joined.groups[0].name = "root";
  StepLabels labels = makeTwoLayersLabels();
  labels.parameters = {{"layers.0", {"w0"}}, {"layers.1", {"w1"}}};
  view = buildView(problem, plan, makeTwoLayersTimeline(), labels);
  labels.parameters = {{"root", {"w0"}}, {"layers.1", {"w1"}}};
  otherView = buildView(joined, other, makeTwoLayersTimeline(), labels);
  StepComparison comparison =
      compareSteps({"a", problem, plan, view}, {"b", joined, other, otherView});
  EXPECT_EQ(comparison.pairs, (Pairs{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}}));
  ASSERT_EQ(comparison.differences.size(), 3u); // two gathers and a reduction
  EXPECT_EQ(comparison.differences[0].what, "gather buckets");
}

/// What takes longer beside a collective is what the collective costs, hidden or not.
TEST_F(Comparison, SlowerComputationIsACostOfWhatIsBesideIt) {
  Timeline timeline = makeTwoLayersTimeline();
  timeline.makespanNs += 3;
  timeline.operations[2].endNs += 3; // beside the gather from 27 to 34
  for (size_t i = 3; i < timeline.operations.size(); ++i) {
    timeline.operations[i].startNs += 3;
    timeline.operations[i].endNs += 3;
  }
  for (Interval &reduction : timeline.reductions) {
    reduction.startNs += 3;
    reduction.endNs += 3;
  }
  otherView = buildView(problem, other, timeline, makeTwoLayersLabels());
  std::vector<double> costs = getCollectiveCosts({"b", problem, other, otherView});
  EXPECT_EQ(costs, (std::vector<double>{7, 0, 3, 0, 2}));
  // An operation that takes no time waits for nothing, also in the middle of a collective.
  problem.operations[2].durationNs = 0;
  timeline.operations[2] = {30, 30};
  otherView = buildView(problem, other, timeline, makeTwoLayersLabels());
  costs = getCollectiveCosts({"b", problem, other, otherView});
  EXPECT_EQ(costs, (std::vector<double>{7, 0, 0, 0, 2}));
}
