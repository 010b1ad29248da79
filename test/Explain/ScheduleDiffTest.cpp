//===- ScheduleDiffTest.cpp - Align and compare the events of two plans ---===//

#include "TwoLayers.h"

#include "fsdp/Explain/ScheduleDiff.h"

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
