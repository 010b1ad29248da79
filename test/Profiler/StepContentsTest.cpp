//===- StepContentsTest.cpp - Contents for the tensors of a step ----------===//

#include "StepContents.h"

#include "Steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

using namespace fsdp;
using namespace fsdp::profile;
using testing::Each;
using testing::Gt;

namespace {

/// Places and bytes that are filled for a shard.
std::map<int64_t, std::vector<std::byte>> fill(const rt::PlanView &plan, unsigned shard) {
  std::map<int64_t, std::vector<std::byte>> filled;
  rt::Status status =
      fillState(plan, shard, [&](bool, int64_t place, std::span<const std::byte> bytes) {
        filled[place].assign(bytes.begin(), bytes.end());
        return rt::Status();
      });
  EXPECT_TRUE(status.ok());
  return filled;
}

} // namespace

// The parameters' pieces of a shard are filled, each shard with other numbers.
TEST(StepContents, FillsEachShard) {
  StepOfFile step = readStep("tools/Inputs/embedding_step.mlir", 2);
  fsdp_plan tables = step.planned.getPlan();
  rt::PlanView plan(tables);
  auto first = fill(plan, 0), second = fill(plan, 1);
  size_t bytes = 0, own = 0;
  for (const auto &[place, contents] : first)
    bytes += contents.size();
  for (const fsdp_group &group : plan.groups())
    own += static_cast<size_t>(plan.shardBytes(group));
  EXPECT_EQ(bytes, own);
  EXPECT_EQ(first.size(), second.size());
  for (const auto &[place, contents] : first) {
    EXPECT_NE(contents, second[place]);
    std::vector<float> numbers(contents.size() / sizeof(float));
    std::memcpy(numbers.data(), contents.data(), contents.size());
    // 12 x 8: the variance of what is multiplied stays.
    EXPECT_THAT(numbers, Each(testing::AllOf(Gt(-0.62f), testing::Lt(0.62f), testing::Ne(0.0f))));
  }
}

// What kernels look up is as bounded as what operators do: inputs do not depend on kernels.
TEST(StepContents, KnowsWhatKernelsLookUp) {
  StepOfFile unfused = readStep("tools/Inputs/embedding_step.mlir", 1),
             fused = readStep("tools/Inputs/embedding_step.mlir", 1, FusionChoice::Fast);
  fsdp_plan plan = unfused.planned.getPlan(), fusedPlan = fused.planned.getPlan();
  EXPECT_GT(fusedPlan.num_kernels, 0u);
  EXPECT_EQ(makeInputs(unfused.planned, rt::PlanView(plan), 7),
            makeInputs(fused.planned, rt::PlanView(fusedPlan), 7));
}

// What cannot be written ends it.
TEST(StepContents, TellsOfFailedWrites) {
  StepOfFile step = readStep("tools/Inputs/embedding_step.mlir", 1);
  fsdp_plan tables = step.planned.getPlan();
  int writes = 0;
  rt::Status status =
      fillState(rt::PlanView(tables), 0, [&](bool, int64_t, std::span<const std::byte>) {
        ++writes;
        return rt::Status::error("no");
      });
  EXPECT_EQ(status.message(), "no");
  EXPECT_EQ(writes, 1);
}
