//===- KernelReferenceTest.cpp - The kernels' host reference equals torch -===//
//
// The device's results are compared with KernelReference bit for bit (KernelDeviceTest.cpp); here
// that reference is compared with torch's operators on the CPU.
//
//===----------------------------------------------------------------------===//

#include "KernelReference.h"
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
    testing::Values(fsdp_optimizer{FSDP_SGD, 0, 0, 0, 0, 0, 0, 0, 0},
                    fsdp_optimizer{FSDP_SGD, 0, 0, 0.1, 0.9, 0, 0, 0, 0},
                    fsdp_optimizer{FSDP_SGD, FSDP_NESTEROV, 0, 0.1, 0.9, 0, 0, 0, 0},
                    fsdp_optimizer{FSDP_SGD, 0, 0, 0.1, 0.9, 0, 0, 0, 0.3},
                    fsdp_optimizer{FSDP_ADAM, FSDP_AMSGRAD, 0, 0.1, 0, 0.9, 0.999, 1e-8, 0},
                    fsdp_optimizer{FSDP_ADAM, 0, 0, 0, 0, 0.9, 0.999, 1e-8, 0},
                    fsdp_optimizer{FSDP_ADAM, 0, 0, 0.1, 0, 0.9, 0.95, 1e-8, 0},
                    fsdp_optimizer{FSDP_ADAMW, 0, 0, 0.1, 0, 0.9, 0.999, 1e-8, 0},
                    fsdp_optimizer{FSDP_ADAMW, 0, 0, 0.1, 0, 0.3, 0.999, 1e-8, 0}));

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
