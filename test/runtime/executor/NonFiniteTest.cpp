//===- NonFiniteTest.cpp - Where NaN and Inf begin -------------------------===//

#include "ExecutorFixture.h"

#include <ATen/Functions.h>

using namespace fsdp::test;
using namespace fsdp::rt;

// A buffer that is written again no longer counts as the cause of NaN.
TEST(NonFinite, OverwrittenNumbersAreNoCause) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {4}), loss = builder.addValue(FSDP_F32, {});
  builder.addInput("x", x);
  const int64_t place = builder.allocate(32);
  uint32_t first = builder.addValue(FSDP_F32, {4}, place),
           second = builder.addValue(FSDP_F32, {4}, place + 16),
           both = builder.addValue(FSDP_F32, {8}, place);
  builder.call("log", "", {value(x)}, {second});
  builder.call("rsqrt", "", {value(x)}, {first});
  builder.zero(place, 16);
  builder.call("sum", "", {value(both), none()}, {loss});
  SingleRank rank(builder.finish(loss), {.findNonFinite = true});
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  for (int64_t step : {1, 2}) {
    rank.tensor(builder.offsetOf(x), {4}).fill_(1)[2].fill_(-1);
    EXPECT_TRUE(rank.step(step).nonFinite);
    const std::string text = rank.executor().nonFinite()->text;
    EXPECT_TRUE(text.starts_with("aten::log")) << text;
  }
  rank.tensor(builder.offsetOf(x), {4}).fill_(1);
  EXPECT_FALSE(rank.step(3).nonFinite);
}
