//===- OptimizerGroupsTest.cpp - Parameters with an optimizer of their own ===//

#include "ExecutorFixture.h"
#include "SmallPlan.h"

using namespace fsdp::test;
using fsdp::rt::describePlan;

static const fsdp_optimizer kSgd = makeOptimizer(FSDP_SGD, {{"lr", {0.1}}});

namespace {
/// Two parameters with the gradient 1, by sgd; the second belongs to optimizer group 1.
struct TwoRates {
  PlanBuilder builder;
  int64_t shards[2];
  int64_t gradient;

  TwoRates() {
    builder.plan.optimizer = kSgd;
    builder.optimizerGroupTable.push_back(kSgd);
    builder.optimizerGroupTable[0].options = FSDP_OWN_LR;
    gradient = builder.allocate(16);
    uint32_t loss = builder.addValue(FSDP_F32, {}), x = builder.addValue(FSDP_F32, {4});
    builder.addInput("x", x);
    builder.call("sum", "", {value(x), none()}, {loss});
    for (const char *name : {"a", "b"}) {
      uint32_t group = builder.addGroup(name, name, {4});
      shards[group] = builder.groupTable[group].shard;
      builder.update(group, gradient);
    }
    builder.parameterTable[1].optimizer = 1;
    builder.finish(loss);
  }
};
} // namespace

TEST(OptimizerGroupsTest, HaveRatesOfTheirOwn) {
  TwoRates two;
  SingleRank rank(two.builder.plan);
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  auto updated = [&](std::span<const double> rates) {
    rank.tensor(two.gradient, {4}).fill_(1);
    for (int64_t shard : two.shards)
      rank.tensor(shard, {4}).fill_(0);
    auto results = rank.executor().step(
        {.step = 1, .learningRate = 0.5, .seed = 1, .groupLearningRates = rates});
    EXPECT_TRUE(results.ok()) << results.status().message();
    return std::pair(rank.tensor(two.shards[0], {4})[0].item<float>(),
                     rank.tensor(two.shards[1], {4})[0].item<float>());
  };
  const double own[] = {0.25}, many[] = {0.25, 0.125};
  EXPECT_EQ(updated(own), std::pair(-0.5f, -0.25f));
  EXPECT_EQ(updated({}), std::pair(-0.5f, -0.5f));
  auto refused =
      rank.executor().step({.step = 2, .learningRate = 0.5, .seed = 1, .groupLearningRates = many});
  EXPECT_EQ(refused.status().message(), "2 learning rates of the 1 groups of the optimizer");
}

TEST(OptimizerGroupsTest, AreDescribed) {
  TwoRates two;
  std::string text = describePlan(two.builder.plan);
  EXPECT_NE(text.find("optimizer: sgd lr 0.1, weight decay 0, momentum 0\n"
                      "  for 1 parameters of 4 elements: sgd lr 0.1, weight decay 0, momentum 0\n"),
            std::string::npos)
      << text;
  two.builder.optimizerGroupTable[0].options = 0; // the run's rate
  text = describePlan(two.builder.plan);
  EXPECT_NE(text.find("of 4 elements: sgd weight decay 0, momentum 0\n"), std::string::npos)
      << text;
}

// Groups differ from the plan's optimizer in what torch's parameter groups may have of their own.
TEST(OptimizerGroupsTest, DamagedOnes) {
  auto error = [](const std::function<void(PlanBuilder &)> &damage) {
    SmallPlan small;
    small.builder.optimizerGroupTable.push_back(small.builder.plan.optimizer);
    damage(small.builder);
    return small.error();
  };
  EXPECT_EQ(error([](PlanBuilder &builder) { builder.optimizerGroupTable[0].lr = 1; }), "");
  const char *another =
      "invalid plan: optimizer group 0: of another kind, or with other options or "
      "momentum, than the plan's optimizer";
  EXPECT_EQ(error([](PlanBuilder &builder) { builder.optimizerGroupTable[0].kind = FSDP_ADAM; }),
            another);
  EXPECT_EQ(error([](PlanBuilder &builder) { builder.optimizerGroupTable[0].momentum = 0.5; }),
            another);
  EXPECT_EQ(
      error([](PlanBuilder &builder) { builder.optimizerGroupTable[0].options = FSDP_AMSGRAD; }),
      another);
  EXPECT_EQ(error([](PlanBuilder &builder) {
              builder.plan.optimizer.options = FSDP_NESTEROV;
            }).find("invalid plan: the optimizer has unknown options 1"),
            0u);
  EXPECT_NE(error([](PlanBuilder &builder) {
              builder.parameterTable[0].optimizer = 2;
            }).find("optimizer 2 of 2"),
            std::string::npos);
}
