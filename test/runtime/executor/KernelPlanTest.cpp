//===- KernelPlanTest.cpp - Plans with wrong kernels are refused -----------===//

#include "SmallPlan.h"
#include "plan/Fingerprint.h"

using namespace fsdp::test;

namespace {
/// SmallPlan, and behind it a kernel of one input and one output: entry 11.
struct SmallKernelPlan : SmallPlan {
  SmallKernelPlan() {
    uint32_t x = builder.addValue(FSDP_F32, {8}), y = builder.addValue(FSDP_F32, {8});
    builder.kernel([](void *const *, int64_t, int64_t) {}, 1, {x}, {y});
  }
};
} // namespace

TEST(PlanTest, Kernels) {
  SmallKernelPlan good, target, arguments, results, beyond, undefined, units, grain, code,
      operators;
  EXPECT_EQ(good.error(), "");
  target.firstOf(FSDP_KERNEL).target = 1;
  EXPECT_NE(target.error().find("kernel 1 of 1"), std::string::npos) << target.error();
  arguments.firstOf(FSDP_KERNEL).num_arguments = 0;
  EXPECT_NE(arguments.error().find("0 arguments and 1 results, its kernel has 1 and 1"),
            std::string::npos)
      << arguments.error();
  results.builder.kernelTable[0].num_outputs = 2;
  EXPECT_NE(results.error().find("1 arguments and 1 results, its kernel has 1 and 2"),
            std::string::npos)
      << results.error();
  beyond.firstOf(FSDP_KERNEL).first_result = 1u << 20;
  EXPECT_NE(beyond.error(), "");
  code.builder.kernelTable[0].code = 1u << 20;
  EXPECT_NE(code.error().find("kernel 0"), std::string::npos) << code.error();
  operators.builder.kernelTable[0].operators = 1u << 20;
  EXPECT_NE(operators.error().find("kernel 0"), std::string::npos) << operators.error();
  undefined.builder.valueTable.back().offset = -1;
  EXPECT_NE(undefined.error().find("a result of a kernel has no place in the arena"),
            std::string::npos)
      << undefined.error();
  units.builder.kernelTable[0].units = 0;
  EXPECT_EQ(units.error(), "invalid plan: kernel 0: 0 units of work, 1 for a thread, expected at "
                           "least 1");
  grain.builder.kernelTable[0].grain = 0;
  EXPECT_EQ(grain.error(), "invalid plan: kernel 0: 1 units of work, 0 for a thread, expected at "
                           "least 1");
}

// Code for GPUs comes with how it is launched, and ends.
TEST(PlanTest, KernelsForGpus) {
  SmallKernelPlan good, blocks, other, end;
  for (SmallKernelPlan *plan : {&good, &other, &end})
    plan->builder.gpuCode = ".entry code()";
  EXPECT_EQ(good.error(), "");
  blocks.builder.kernelTable[0].gpu_blocks = 1;
  EXPECT_EQ(blocks.error(), "invalid plan: kernel 0: 1 blocks of 0 threads, expected 0 of 0 in a "
                            "plan without GPU code");
  auto errorOf = [](fsdp_plan plan) { return fsdp::rt::validatePlan(plan).message(); };
  fsdp_plan launched = other.builder.finish(other.loss);
  for (auto [numBlocks, numThreads] :
       {std::pair(1u, 2048u), {0u, 32u}, {1u << 31, 32u}, {1u, 0u}}) {
    other.builder.kernelTable[0].gpu_blocks = numBlocks;
    other.builder.kernelTable[0].gpu_threads = numThreads;
    EXPECT_EQ(errorOf(launched), "invalid plan: kernel 0: " + std::to_string(numBlocks) +
                                     " blocks of " + std::to_string(numThreads) +
                                     " threads, expected 1 to 2147483647 of 1 to 1024");
  }
  fsdp_plan cut = end.builder.finish(end.loss);
  --cut.num_gpu_code_bytes;
  EXPECT_EQ(errorOf(cut), "invalid plan: the GPU code does not end with NUL");
  cut.gpu_code = nullptr;
  EXPECT_EQ(errorOf(cut), "invalid plan: 13 bytes of GPU code but no table of them");
}

// A checkpoint or a rank of another plan is told by the plan's fingerprint: kernels of equal shape
// that compute something else are other plans.
TEST(PlanTest, FingerprintsTellKernelsApart) {
  SmallKernelPlan one, same, other;
  other.builder.kernelTable[0].code = other.builder.addString("other");
  auto fingerprint = [](SmallKernelPlan &plan) {
    return fsdp::rt::fingerprintOf(fsdp::rt::PlanView(plan.builder.finish(plan.loss)));
  };
  EXPECT_EQ(fingerprint(one), fingerprint(same));
  EXPECT_NE(fingerprint(one), fingerprint(other));
}

TEST(PlanTest, DescribesKernels) {
  SmallKernelPlan small;
  EXPECT_NE(fsdp::rt::describePlan(small.builder.finish(small.loss))
                .find("generated kernels: 1, launched 1 times\n"),
            std::string::npos);
}
