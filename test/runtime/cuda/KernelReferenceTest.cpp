//===- KernelReferenceTest.cpp - The kernels' host reference equals torch -===//
//
// The device's results are compared with KernelReference bit for bit (KernelDeviceTest.cpp); here
// that reference is compared with torch's operators on the CPU.
//
//===----------------------------------------------------------------------===//

#include "KernelReference.h"
#include "KernelEffects.h"
#include "executor/TorchOptimizer.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace fsdp::rt;

static at::Tensor tensorOf(std::vector<float> &values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat);
}
static std::byte *bytes(std::vector<float> &values) {
  return reinterpret_cast<std::byte *>(values.data());
}

static void torchsRoots(std::vector<float> &values) { tensorOf(values).sqrt_(); }

class KernelUpdateReferenceTest : public testing::TestWithParam<fsdp_optimizer> {};

TEST_P(KernelUpdateReferenceTest, UpdatesEqualTorchsButForTheSquareRoot) {
  at::manual_seed(6);
  const fsdp_optimizer &optimizer = GetParam();
  constexpr int64_t kElements = 4099;
  std::vector<float> gradients(kElements);
  ReferenceShard torch{std::vector<float>(kElements),
                       {std::vector<float>(kElements), std::vector<float>(kElements),
                        std::vector<float>(optimizer.options & FSDP_AMSGRAD ? kElements : 0)}};
  tensorOf(torch.parameters).copy_(at::randn({kElements}));
  auto update =
      makeTorchUpdate(optimizer, {FSDP_F32,
                                  kElements,
                                  bytes(torch.parameters),
                                  bytes(gradients),
                                  {bytes(torch.state[0]), bytes(torch.state[1]),
                                   torch.state[2].empty() ? nullptr : bytes(torch.state[2])},
                                  {{0, kElements}}});
  for (int64_t step = 1; step <= 6; ++step) {
    double lr = 1e-2 / static_cast<double>(step);
    float clip = step % 2 ? 1.f : 0.37f;
    tensorOf(gradients).copy_(
        at::randn({kElements}).mul_(at::pow(10.0, at::randn({kElements}).mul_(2))));
    // Every step starts from torch's state: what is compared is one update.
    ReferenceShard reference = torch;
    referenceUpdate(optimizer.kind, referenceScalars(optimizer, {lr, step}), clip, gradients,
                    reference, torchsRoots);
    tensorOf(gradients).mul_(clip);
    update->run(step, lr, nullptr);
    for (int64_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(torch.parameters[i], reference.parameters[i])
          << "step " << step << ", element " << i;
      for (int s = 0; s < (torch.state[2].empty() ? 2 : 3); ++s)
        ASSERT_EQ(torch.state[s][i], reference.state[s][i])
            << "step " << step << ", state " << s << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, KernelUpdateReferenceTest,
    testing::Values(
        fsdp_optimizer{FSDP_SGD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        fsdp_optimizer{FSDP_SGD, 0, 0, 0.1, 0.9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        fsdp_optimizer{FSDP_SGD, FSDP_NESTEROV, 0, 0.1, 0.9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        fsdp_optimizer{FSDP_SGD, 0, 0, 0.1, 0.9, 0, 0, 0, 0.3, 0, 0, 0, 0, 0, 0},
        fsdp_optimizer{FSDP_ADAM, FSDP_AMSGRAD, 0, 0.1, 0, 0.9, 0.999, 1e-8, 0, 0, 0, 0, 0, 0, 0},
        fsdp_optimizer{FSDP_ADAM, 0, 0, 0, 0, 0.9, 0.999, 1e-8, 0, 0, 0, 0, 0, 0, 0},
        fsdp_optimizer{FSDP_ADAM, 0, 0, 0.1, 0, 0.9, 0.95, 1e-8, 0, 0, 0, 0, 0, 0, 0},
        fsdp_optimizer{FSDP_ADAMW, 0, 0, 0.1, 0, 0.9, 0.999, 1e-8, 0, 0, 0, 0, 0, 0, 0},
        fsdp_optimizer{FSDP_ADAMW, 0, 0, 0.1, 0, 0.3, 0.999, 1e-8, 0, 0, 0, 0, 0, 0, 0}));

// What is left between the kernels and torch: torch's square root is not correctly rounded.
TEST(KernelReferenceTest, SquareRootsAreTorchsWithinOneUlp) {
  at::manual_seed(5);
  std::vector<float> values(100'000);
  tensorOf(values).copy_(at::pow(10.0, at::randn({100'000}).mul_(6)));
  std::vector<float> torchs = values;
  roundedRoots(values);
  torchsRoots(torchs);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_LE(ulpDistance(values[i], torchs[i]), 1) << i;
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
      ASSERT_EQ(referenceAverage(a, p, weight, 2), expected[i].item<float>());
      ASSERT_EQ(referenceAverage(std::nanf(""), p, weight, 1), p);
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
      const fsdp_optimizer optimizer{kind, 0, kRate, kDecay, 0.9, kBeta1, kBeta2, kEps,
                                     0,    0, 0,     0,      0,   0,      0};
      const OptimizerScalars scalars = referenceScalars(optimizer, {kRate, 3});
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
