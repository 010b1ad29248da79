//===- LinearProgramTest.cpp - Linear and integer programs ----------------===//

#include "LinearProgram.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace fsdp::schedule;

namespace {

/// Of 10 items that weigh 3 each and of 10 that weigh 2, worth 5 and 3, as much as weighs 7 in all;
/// as a cost.
struct Knapsack {
  LinearProgram program;
  Column heavy = program.addColumn(0, 10, /*integer=*/true);
  Column light = program.addColumn(0, 10, /*integer=*/true);
  Knapsack() {
    program.setCost(heavy, -5);
    program.setCost(light, -3);
    program.requireAtLeast(7, 3.0 * Expression(heavy) + 2.0 * Expression(light));
  }
};

/// Two knapsacks, of which the second has room for `room`. Together they take at most 13 items.
struct TwoKnapsacks {
  LinearProgram program;
  Column heavy[2], light[2];
  explicit TwoKnapsacks(double room = 7) {
    Expression all;
    for (int i = 0; i < 2; ++i) {
      program.setPlace(i);
      heavy[i] = program.addColumn(0, 10, /*integer=*/true);
      light[i] = program.addColumn(0, 10, /*integer=*/true);
      program.setCost(heavy[i], -5);
      program.setCost(light[i], -3);
      program.requireAtLeast(i ? room : 7.0,
                             3.0 * Expression(heavy[i]) + 2.0 * Expression(light[i]));
      all += heavy[i] + Expression(light[i]);
    }
    program.requireAtLeast(13, all);
  }
  double bound() const { return program.solve(1000)->bound; }
};

} // namespace

TEST(LinearProgram, SolvesWithFractions) {
  Knapsack knapsack;
  std::optional<LinearProgram::Solution> solution = knapsack.program.solve(1000);
  ASSERT_TRUE(solution);
  EXPECT_NEAR(solution->bound, -5.0 * 7 / 3, 1e-9);
  EXPECT_NEAR(solution->valueOf(knapsack.heavy), 7.0 / 3, 1e-9);
  EXPECT_EQ(solution->valueOf(Column()), 0);
}

TEST(LinearProgram, SearchesWholeNumbers) {
  Knapsack knapsack;
  std::optional<double> bound = knapsack.program.branchAndBound(1000);
  ASSERT_TRUE(bound);
  EXPECT_NEAR(*bound, -11, 1e-6); // one heavy, two light
}

// Each knapsack alone is worth 35/3 in fractions and 11 in whole items.
TEST(LinearProgram, TightensParts) {
  TwoKnapsacks knapsacks;
  LinearProgram &program = knapsacks.program;
  EXPECT_EQ(program.integerPlaces(), (std::vector<double>{0, 0, 1, 1}));
  LinearProgram::Solution solution = *program.solve(1000);
  EXPECT_NEAR(program.tighten(solution, -1, 0, 100), 35. / 3 - 11, 1e-4);
  EXPECT_NEAR(knapsacks.bound(), -35. / 3 - 11, 1e-4);
  EXPECT_NEAR(program.tighten(solution, 1, 1, 100), 35. / 3 - 11, 1e-4);
  EXPECT_NEAR(knapsacks.bound(), -22, 1e-4);
  EXPECT_GE(knapsacks.bound(), -22 - 1e-4);
  EXPECT_LE(knapsacks.bound(), -22);
  EXPECT_EQ(program.tighten(*program.solve(1000), 0, 0, 100), 0); // is known already
  EXPECT_EQ(program.tighten(solution, 2, 3, 100), 0);             // nothing is there
}

// Rows that were added since a solution was found hold in a part, and had no price in it.
TEST(LinearProgram, TightensAroundNewRows) {
  TwoKnapsacks knapsacks;
  LinearProgram::Solution solution = *knapsacks.program.solve(1000);
  EXPECT_NEAR(knapsacks.program.tighten(solution, 0, 0, 100), 35. / 3 - 11, 1e-4);
  EXPECT_NEAR(knapsacks.program.tighten(solution, 0, 1, 100), 2 * (35. / 3 - 11), 1e-4);
  EXPECT_NEAR(knapsacks.bound(), -22, 1e-4);
}

// The second one's solution is whole: three heavy items.
TEST(LinearProgram, LeavesWholePartsAlone) {
  TwoKnapsacks knapsacks(9);
  LinearProgram::Solution solution = *knapsacks.program.solve(1000);
  EXPECT_EQ(solution.valueOf(knapsacks.heavy[1]), 3);
  EXPECT_EQ(knapsacks.program.tighten(solution, 1, 1, 100), 0);
  EXPECT_GT(knapsacks.program.tighten(solution, 0, 1, 100), 0.6);
}

// A column that occurs on both sides, and one that is always zero.
TEST(LinearProgram, CollectsTerms) {
  LinearProgram program;
  Column x = program.addColumn(0, 100), y = program.addColumn(0, 100);
  program.setCost(x, 1);
  program.requireAtLeast(3.0 * Expression(x) + Expression(Column()), Expression(x) + 2.0 + y);
  program.requireEqual(y, 8);
  std::optional<LinearProgram::Solution> solution = program.solve(1000);
  ASSERT_TRUE(solution);
  EXPECT_NEAR(solution->bound, 5, 1e-9);
}

TEST(LinearProgram, SaysWhereThereIsNoPoint) {
  LinearProgram program;
  Column x = program.addColumn(0, 1, /*integer=*/true);
  program.requireAtLeast(x, 2);
  EXPECT_FALSE(program.solve(1000));
  EXPECT_EQ(program.branchAndBound(1000), HUGE_VAL);
}
