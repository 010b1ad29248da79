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
  SmallKernelPlan good, target, arguments, results, beyond, undefined, units, grain, code;
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
