//===- ExecutorErrorTest.cpp - What is refused, and how it is said ---------===//

#include "ExecutorFixture.h"

#include <gmock/gmock.h>

using namespace fsdp::test;
using fsdp::rt::Result;
using fsdp::rt::StepResults;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// A result whose sizes are not the plan's is an error that names operator, module and both.
TEST(ExecutorErrorTest, SizeMismatchIsAnError) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {2, 3}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  uint32_t y = builder.addValue(FSDP_F32, {3, 2});
  uint32_t module = builder.addString("layers.0"), location = builder.addString("model.py:12");
  fsdp_entry &relu = builder.call("relu", "", {value(x)}, {y});
  relu.module = module;
  relu.location = location;
  builder.call("sum", "", {value(y), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  EXPECT_EQ(
      rank.executor().step({}).status().message(),
      "aten::relu in module \"layers.0\" (model.py:12): result 0 is f32[2, 3] strides [3, 1], "
      "the plan says %2: f32[3, 2] strides [2, 1]");
  // The executor is spent.
  EXPECT_EQ(rank.executor().step({}).status().message(), "the executor has failed before");
}

// A view that lies elsewhere than the plan says is an error.
TEST(ExecutorErrorTest, MisplacedViewIsAnError) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {4, 4}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  uint32_t row = builder.addValue(FSDP_F32, {4}, builder.offsetOf(x));
  builder.view("select", "int", {value(x), integer(0), integer(2)}, {row});
  builder.call("sum", "", {value(row), none()}, {loss});
  SingleRank rank(builder.finish(loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  EXPECT_EQ(
      rank.executor().step({}).status().message(),
      "aten::select.int in module \"\": the view begins 32 bytes after its place in the plan, "
      "%2: f32[4] strides [1]");
}

// What an operator throws becomes an error that names it.
TEST(ExecutorErrorTest, OperatorErrorNamesTheOperator) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {2, 3}), loss = builder.addValue(FSDP_F32, {2, 3});
  builder.addInput("x", x);
  builder.call("mm", "", {value(x), value(x)}, {loss});
  uint32_t one = builder.addValue(FSDP_F32, {});
  SingleRank rank(builder.finish(one));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  std::string message = rank.executor().step({}).status().message();
  EXPECT_EQ(message.rfind("aten::mm in module \"\": mat1 and mat2 shapes cannot be multiplied", 0),
            0u)
      << message;
}

// All operators that do otherwise than the plan says are told of, if that is asked for; what
// follows them computes with zeros.
TEST(ExecutorErrorTest, FailuresAreCollected) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {2, 3}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  uint32_t turned = builder.addValue(FSDP_F32, {3, 2}),
           product = builder.addValue(FSDP_F32, {2, 3}),
           row = builder.addValue(FSDP_F32, {3}, builder.offsetOf(x));
  builder.call("relu", "", {value(x)}, {turned});
  builder.call("mm", "", {value(turned), value(turned)}, {product});
  builder.view("select", "int", {value(x), integer(0), integer(1)}, {row});
  builder.call("sum", "", {value(turned), none()}, {loss});
  SingleRank rank(builder.finish(loss), {.collectsFailures = true});
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  EXPECT_THAT(rank.executor().step({}).status().message(),
              StartsWith("3 operators of the step do otherwise than the plan says; the first: "
                         "aten::relu in module \"\": result 0 is f32[2, 3]"));
  EXPECT_THAT(rank.executor().operatorFailures(),
              ElementsAre(HasSubstr("aten::relu"), HasSubstr("mat1 and mat2 shapes"),
                          HasSubstr("the view begins 12 bytes after its place")));
}

// An unknown operator, a bad argument and too many of them are found before the first step.
TEST(ExecutorErrorTest, CallsAreResolvedAtCreation) {
  auto creation = [](const char *name, std::vector<Argument> arguments) {
    PlanBuilder builder;
    uint32_t loss = builder.addValue(FSDP_F32, {});
    builder.call(name, "", std::move(arguments), {loss});
    SingleRank rank(builder.finish(loss));
    return rank.status().message();
  };
  EXPECT_EQ(creation("no_such_operator", {}),
            "this LibTorch has no operator aten::no_such_operator in module \"\"");
  EXPECT_EQ(creation("relu", {integers({1})}),
            "aten::relu in module \"\": argument 'self' is of kind 7, which does not fit its type "
            "Tensor");
  EXPECT_EQ(creation("relu", {real(1), real(2)}),
            "aten::relu in module \"\": 2 arguments, the operator takes 1");
  EXPECT_EQ(creation("mm", {real(1)}), "aten::mm in module \"\": argument 'mat2' is missing");
}

// A plan for another number of ranks, or of replicas, is refused.
TEST(ExecutorErrorTest, WorldSizeMustMatch) {
  PlanBuilder builder;
  builder.plan.world_size = 2;
  SingleRank rank(builder.finish(builder.addValue(FSDP_F32, {})));
  EXPECT_EQ(rank.status().message(), "the step was compiled for 2 ranks, the run has 1");
  PlanBuilder whole;
  whole.plan.world_size = 2;
  whole.plan.replicas = 2;
  fsdp_plan &plan = whole.finish(whole.addValue(FSDP_F32, {}));
  fsdp::rt::CpuDevice device;
  auto communicators = fsdp::rt::makeLocalCommunicators(2, {.lanes = fsdp::rt::standardLanes(2)});
  std::vector<std::byte> arena(static_cast<size_t>(plan.arena_bytes) + 1);
  auto refused = fsdp::rt::Executor::create(plan, device, *communicators[0], arena.data());
  EXPECT_EQ(refused.status().message(), "the step's communicator 'gather' joins 1 ranks with "
                                        "stride 1, the run has 2 ranks with stride 1");
}
