//===- KernelTest.cpp - Generated kernels in a step ------------------------===//

#include "ExecutorFixture.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

using namespace fsdp::test;

/// y = x + 1 and z = 2 x of 8 numbers, a unit each.
static void addAndDouble(void *const *tensors, int64_t begin, int64_t end) {
  auto *x = static_cast<const float *>(tensors[0]);
  auto *y = static_cast<float *>(tensors[1]), *z = static_cast<float *>(tensors[2]);
  for (int64_t i = begin; i < end; ++i) {
    y[i] = x[i] + 1;
    z[i] = 2 * x[i];
  }
}

namespace {
/// loss = sum(y + z) of the kernel above.
struct KernelPlan {
  PlanBuilder builder;
  uint32_t x, loss;

  KernelPlan() {
    x = builder.addValue(FSDP_F32, {8});
    builder.addInput("x", x);
    uint32_t y = builder.addValue(FSDP_F32, {8}), z = builder.addValue(FSDP_F32, {8});
    builder.kernel(addAndDouble, 8, {x}, {y, z});
    uint32_t sum = builder.addValue(FSDP_F32, {8});
    builder.call("add", "Tensor", {value(y), value(z), integer(1)}, {sum});
    loss = builder.addValue(FSDP_F32, {});
    builder.call("sum", "", {value(sum), none()}, {loss});
  }
};
} // namespace

// A kernel reads and writes at the planned places, in the first step and in later ones, and takes
// no memory beside them.
TEST(KernelTest, RunsOnPlannedPlaces) {
  KernelPlan plan;
  SingleRank rank(plan.builder.finish(plan.loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  at::Tensor x = rank.tensor(plan.builder.offsetOf(plan.x), {8});
  for (int64_t step = 1; step <= 3; ++step) {
    x.copy_(at::arange(8, at::kFloat).mul(static_cast<double>(step)));
    EXPECT_EQ(rank.step(step).loss, 8 + 3 * x.sum().item<float>());
  }
}

// Units are split over the threads of operators.
TEST(KernelTest, RunsOnSeveralThreads) {
  KernelPlan plan;
  SingleRank rank(plan.builder.finish(plan.loss));
  ASSERT_TRUE(rank.status().ok()) << rank.status().message();
  at::set_num_threads(2);
  at::Tensor x = rank.tensor(plan.builder.offsetOf(plan.x), {8});
  x.copy_(at::arange(8, at::kFloat));
  EXPECT_EQ(rank.step(1).loss, 8 + 3 * 28);
  at::set_num_threads(1);
}

// A plan that is no native code cannot run its kernels.
TEST(KernelTest, NeedsNativeCode) {
  KernelPlan plan;
  fsdp_plan tables = plan.builder.finish(plan.loss);
  tables.kernel_functions = nullptr;
  SingleRank rank(tables);
  EXPECT_EQ(rank.status().message(),
            "kernel kernel of mul, add in module \"\": the plan has no native code; "
            "link it by fsdp-compile");
}
