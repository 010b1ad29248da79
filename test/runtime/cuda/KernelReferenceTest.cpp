//===- KernelReferenceTest.cpp - The kernels' host reference equals torch -===//
//
// The device's results are compared with KernelReference bit for bit (KernelDeviceTest.cpp); here
// that reference is compared with torch's operators on the CPU.
//
//===----------------------------------------------------------------------===//

#include "KernelReference.h"
#include "KernelEffects.h"
#include "OptimizerCases.h"
#include "executor/OptimizerSteps.h"
#include "executor/TorchOptimizer.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace fsdp::rt;
using namespace fsdp::test;

static at::Tensor tensorOf(std::vector<float> &values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat);
}
static std::byte *bytes(std::vector<float> &values) {
  return reinterpret_cast<std::byte *>(values.data());
}

class KernelUpdateReferenceTest : public testing::TestWithParam<fsdp_optimizer> {};

TEST_P(KernelUpdateReferenceTest, UpdatesEqualTorchsButForTheSquareRoot) {
  at::manual_seed(6);
  const fsdp_optimizer &optimizer = GetParam();
  constexpr int64_t kElements = 4099;
  std::vector<float> gradients(kElements);
  ReferenceShard torch{std::vector<float>(kElements), {}};
  tensorOf(torch.parameters).copy_(at::randn({kElements}));
  ShardBuffers shard{.dtype = FSDP_F32,
                     .elements = kElements,
                     .parameters = bytes(torch.parameters),
                     .gradients = bytes(gradients),
                     .state = {},
                     .pieces = {{0, kElements}}};
  for (unsigned i = 0, count = 0; i < FSDP_MAX_STATES; ++i)
    if (hasState(optimizer, i)) {
      torch.state[i].resize(kElements);
      shard.state[count++] = bytes(torch.state[i]);
    }
  auto update = makeTorchUpdate(optimizer, shard);
  OptimizerSteps steps(optimizer);
  // radam rectifies from step 6 on.
  for (int64_t step : {1, 2, 3, 6, 7, 1000, 4}) {
    const double lr = 1e-2 / static_cast<double>(step);
    const float clip = step % 2 ? 1.f : 0.37f;
    const float sign = optimizer.options & FSDP_MAXIMIZE ? -1 : 1;
    tensorOf(gradients).copy_(
        at::randn({kElements}).mul_(at::pow(10.0, at::randn({kElements}).mul_(2))));
    // Every step starts from torch's state: what is compared is one update.
    ReferenceShard reference = torch;
    referenceUpdate(optimizer.kind, steps.at(step, lr), clip * sign, gradients, reference,
                    Roots::Torchs);
    tensorOf(gradients).mul_(clip);
    update->run(step, lr, {});
    for (int64_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(ulpDistance(torch.parameters[i], reference.parameters[i]), 0)
          << "step " << step << ", element " << i << ": " << reference.parameters[i]
          << ", expected " << torch.parameters[i];
      for (int k = 0; k < FSDP_MAX_STATES; ++k)
        if (!torch.state[k].empty()) {
          ASSERT_EQ(ulpDistance(torch.state[k][i], reference.state[k][i]), 0)
              << "step " << step << ", state " << k << ", element " << i << ": "
              << reference.state[k][i] << ", expected " << torch.state[k][i];
        }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, KernelUpdateReferenceTest, testing::ValuesIn(optimizerCases()),
                         [](const auto &info) {
                           return std::string(fsdp::plan::kindOf(info.param).name) + "_" +
                                  std::to_string(info.index);
                         });

// As torch.clamp with numbers, which rounds the limit to the gradients' dtype.
TEST(KernelReferenceTest, ClippedValuesEqualTorchs) {
  std::vector<float> values = {0.f, 0.2f, 0.3f, -0.3f, 5.f, -7.f, HUGE_VALF, -HUGE_VALF};
  for (fsdp_dtype dtype : {FSDP_F32, FSDP_BF16, FSDP_F16}) {
    std::vector<float> clipped = values;
    for (float &value : clipped)
      value = rounded(value, dtype);
    at::Tensor expected =
        tensorOf(clipped).to(static_cast<at::ScalarType>(dtype)).clamp(-0.3, 0.3).to(at::kFloat);
    clipValues(clipped, rounded(0.3f, dtype));
    EXPECT_TRUE(at::equal(tensorOf(clipped), expected));
  }
  std::vector<float> nan = {std::nanf("")};
  clipValues(nan, 1);
  EXPECT_TRUE(std::isnan(nan[0]));
}

// What is left between the kernels and torch: torch's square root is not correctly rounded.
TEST(KernelReferenceTest, SquareRootsAreTorchsWithinOneUlp) {
  at::manual_seed(5);
  std::vector<float> values(100'000);
  tensorOf(values).copy_(at::pow(10.0, at::randn({100'000}).mul_(6)));
  std::vector<float> torchs = values;
  tensorOf(torchs).sqrt_();
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_LE(ulpDistance(std::sqrt(values[i]), torchs[i]), 1) << i;
}

TEST(KernelReferenceTest, ClipFactorEqualsTorchs) {
  for (double total : {0.0, 1e-14, 0.3, 1.0, 2.0, 12345.678, 1e30, HUGE_VAL, std::nan("")})
    for (float maxNorm : {0.1f, 1.f, 7.f}) {
      at::Tensor norm = at::full({}, total, at::kDouble).sqrt().to(at::kFloat);
      at::Tensor factor = norm.add(1e-6).reciprocal().mul(maxNorm).clamp_max(1.0);
      ASSERT_EQ(ulpDistance(factor.item<float>(), referenceClipFactor(FSDP_NORM_2, total, maxNorm)),
                0)
          << total << " " << maxNorm;
    }
}

// With scales of 1 the sum is torch's; a scale of 0 overwrites whatever was there.
TEST(KernelReferenceTest, AccumulationEqualsTorchs) {
  at::manual_seed(4);
  at::Tensor to = at::randn({1000}), from = at::randn({1000});
  at::Tensor sum = to.add(from), product = from.mul(0.3f);
  for (int64_t i = 0; i < 1000; ++i) {
    float a = to[i].item<float>(), b = from[i].item<float>();
    ASSERT_EQ(referenceAccumulate(a, 1, b, 1), sum[i].item<float>());
    ASSERT_EQ(referenceAccumulate(std::nanf(""), 0, b, 0.3f), product[i].item<float>());
  }
}

// The first average is the parameter, whatever was there.
TEST(KernelReferenceTest, AverageEqualsTorchs) {
  at::manual_seed(5);
  at::Tensor average = at::randn({1000}), parameter = at::randn({1000});
  for (float weight : {0.001f, 0.49f, 0.5f, 0.9f}) {
    at::Tensor expected = average.lerp(parameter, weight);
    for (int64_t i = 0; i < 1000; ++i) {
      float a = average[i].item<float>(), p = parameter[i].item<float>();
      ASSERT_EQ(referenceAverage(a, p, {weight, false}), expected[i].item<float>());
      ASSERT_EQ(referenceAverage(std::nanf(""), p, {weight, true}), p);
    }
  }
}

// Shards of bf16 and fp16 are updated as by torch.optim's fused=True, which computes in fp32, too.
// (On CPUs torch 2.11's own fused SGD of such tensors writes numbers of no meaning: there in
// double.)
TEST(KernelReferenceTest, NarrowShardsAreTorchsFusedUpdatesWithinOneUlp) {
  at::manual_seed(7);
  constexpr int64_t kElements = 4096;
  constexpr double kRate = 1e-2, kDecay = 0.1, kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8;
  for (fsdp_dtype dtype : {FSDP_BF16, FSDP_F16})
    for (uint32_t kind : {FSDP_SGD, FSDP_ADAM, FSDP_ADAMW}) {
      at::TensorOptions options = at::TensorOptions().dtype(static_cast<at::ScalarType>(dtype));
      at::Tensor own[4], torchs[4]; // parameters, gradients, states
      for (int i = 0; i < 4; ++i) {
        own[i] = at::randn({kElements}, options);
        if (i == 3)
          own[i].abs_();
        torchs[i] = own[i].clone();
      }
      const fsdp_optimizer optimizer = makeOptimizer(kind, {{"weight_decay", {kDecay}},
                                                            {"momentum", {0.9}},
                                                            {"betas", {kBeta1, kBeta2}},
                                                            {"eps", {kEps}}});
      const OptimizerScalars scalars = OptimizerSteps(optimizer).at(3, kRate);
      runOnHost(OptimizerUpdateArguments{
          .kind = kind,
          .elements = kElements,
          .parameters = own[0].data_ptr(),
          .gradients = own[1].data_ptr(),
          .gradientDtype = dtype,
          .state = {own[2].data_ptr(), kind == FSDP_SGD ? nullptr : own[3].data_ptr()},
          .gathered = nullptr,
          .gatheredDtype = dtype,
          .scalars = &scalars,
          .clipFactor = nullptr,
          .dtype = dtype});
      const std::vector<at::Tensor> steps = {at::full({}, 3.f)};
      if (kind == FSDP_SGD) {
        for (at::Tensor &tensor : torchs)
          tensor = tensor.to(at::kDouble);
        torchs[2].mul_(0.9).add_(torchs[1]).add_(torchs[0], kDecay);
        torchs[0].sub_(torchs[2], kRate);
      } else if (kind == FSDP_ADAM) {
        at::_fused_adam_({torchs[0]}, {torchs[1]}, {torchs[2]}, {torchs[3]}, {}, steps, kRate,
                         kBeta1, kBeta2, kDecay, kEps, false, false);
      } else {
        at::_fused_adamw_({torchs[0]}, {torchs[1]}, {torchs[2]}, {torchs[3]}, {}, steps, kRate,
                          kBeta1, kBeta2, kDecay, kEps, false, false);
      }
      const double ulp = dtype == FSDP_BF16 ? 0x1p-7 : 0x1p-10;
      for (int i : {0, 2, 3})
        EXPECT_TRUE(at::allclose(own[i].to(at::kDouble), torchs[i].to(at::kDouble), ulp, 1e-6))
            << "optimizer " << kind << ", dtype " << dtype << ", tensor " << i;
    }
}
