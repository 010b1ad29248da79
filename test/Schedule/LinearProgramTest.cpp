//===- LinearProgramTest.cpp - Linear programs ----------------===//

#include "Bounds/LinearProgram.h"

#include <gtest/gtest.h>

using namespace fsdp::schedule;

namespace {

/// Of 10 items that weigh 3 each and of 10 that weigh 2, worth 5 and 3, as much as weighs 7 in all;
/// as a cost.
struct Knapsack {
  LinearProgram program;
  Column heavy = program.addColumn(0, 10);
  Column light = program.addColumn(0, 10);
  Knapsack() {
    program.setCost(heavy, -5);
    program.setCost(light, -3);
    program.requireAtLeast(7, 3.0 * Expression(heavy) + 2.0 * Expression(light));
  }
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
  Column x = program.addColumn(0, 1);
  program.requireAtLeast(x, 2);
  EXPECT_FALSE(program.solve(1000));
}
