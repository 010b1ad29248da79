//===- FusedKernelsTest.cpp - Loops of the updates on a CPU ----------------===//

#include "cpu/FusedKernels.h"
#include "cpu/VectorAdam.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace fsdp::rt;

// The portable loops and those for this machine give the same bits.
TEST(FusedKernelsTest, PortableLoopsAreTheSame) {
  at::manual_seed(4);
  constexpr size_t kCount = 1003;
  AdamScalars adamScalars{0.999f, 0.01f, 0.1f, 0.999f, 0.001f, 0.5f, 1e-8f, -0.01f};
  SgdScalars sgdScalars{-0.1f, 0.01f, 0.9f, true, false, true, 0.7f};
  at::Tensor start = at::randn({6, kCount}), first = start.clone(), second = start.clone();
  double sums[2];
  int i = 0;
  for (auto [kernels, data] :
       {std::pair(&fusedKernels(), &first), std::pair(&portableFusedKernels(), &second)}) {
    auto row = [&, data = data](int64_t index) { return data->select(0, index).data_ptr<float>(); };
    data->select(0, 3).abs_();
    sums[i] = kernels->sgd(row(0), row(1), row(2), kCount, sgdScalars, 0.75f);
    sums[i++] +=
        kernels->adamMoments(row(0), row(1), row(2), row(3), row(4), kCount, adamScalars, 0.75f);
    kernels->adamParameters(row(0), row(2), row(3), kCount, adamScalars);
  }
  EXPECT_TRUE(at::equal(first, second));
  EXPECT_EQ(sums[0], sums[1]);
}

class VectorAdamTest : public testing::Test {
protected:
  void SetUp() override {
    at::set_num_threads(1);
    if (!isVectorAdamExact())
      GTEST_SKIP() << "this processor has no AVX-512, or torch's square roots are others";
  }
};

// Its square roots are torch's: of all significands, with both parities of the exponent; of all
// exponents; of zero. What it cannot take is left alone.
TEST_F(VectorAdamTest, RootsAreTorchs) {
  auto compareRoots = [](at::Tensor values, const char *what) {
    at::Tensor expected = values.sqrt();
    vectorRoots(values.data_ptr<float>(), values.numel());
    EXPECT_EQ(std::memcmp(values.data_ptr(), expected.data_ptr(), values.nbytes()), 0) << what;
  };
  constexpr uint32_t kPiece = 1 << 20;
  at::Tensor values = at::empty({kPiece}, at::kFloat);
  for (uint32_t first = 127u << 23; first < 129u << 23; first += kPiece) {
    for (uint32_t i = 0; i < kPiece; ++i)
      values.data_ptr<float>()[i] = std::bit_cast<float>(first + i);
    compareRoots(values, "significands");
  }
  for (uint32_t i = 0; i < kPiece; ++i)
    values.data_ptr<float>()[i] = i == 0 ? 0 : std::bit_cast<float>((i % 254 + 1) << 23 | i * 8);
  compareRoots(values, "exponents");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  at::Tensor others = at::tensor({-0.0f, -1.0f, 1e-45f, 1e-38f, kInfinity, -kInfinity, 4.0f, NAN});
  at::Tensor roots = others.repeat({2});
  vectorRoots(roots.data_ptr<float>(), roots.numel());
  others[6] = 2;
  EXPECT_EQ(std::memcmp(roots.data_ptr(), others.repeat({2}).data_ptr(), roots.nbytes()), 0);
}

// One pass gives the bits of the separate loops, sum of squares included, also where second moments
// are zero, too small for a normal number, infinite or no numbers.
TEST_F(VectorAdamTest, OnePassIsTheSame) {
  at::manual_seed(5);
  constexpr int64_t kCount = 1024;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  at::Tensor spare = at::empty({16}, at::kFloat), root = at::empty({kCount}, at::kFloat);
  for (float lerpWeight : {0.1f, 0.7f})
    for (float weightDecay : {0.0f, 0.01f}) {
      AdamScalars scalars{0.999f, weightDecay, lerpWeight, 0.999f, 0.001f, 0.5f, 1e-8f, -0.01f};
      at::Tensor first = at::randn({4, kCount}); // parameters, gradients, moments
      first.select(0, 1).slice(0, 0, 200).fill_(0);
      first.select(0, 1).slice(0, 200, 400).mul_(1e-20f);
      first.select(0, 1)[500] = 1e30f;
      first.select(0, 1)[501] = kInfinity;
      first.select(0, 1)[502] = NAN;
      first.select(0, 3).abs_();
      first.select(0, 3).slice(0, 0, 450).fill_(0);
      at::Tensor second = first.clone();
      auto row = [](const at::Tensor &data, int64_t index) {
        return data.select(0, index).data_ptr<float>();
      };
      const FusedKernels &kernels = portableFusedKernels();
      double expected =
          kernels.adamMoments(row(first, 0), row(first, 1), row(first, 2), row(first, 3),
                              root.data_ptr<float>(), kCount, scalars, 0.75f);
      root.sqrt_();
      kernels.adamParameters(row(first, 0), row(first, 2), root.data_ptr<float>(), kCount, scalars);
      double sum = vectorAdam(row(second, 0), row(second, 1), row(second, 2), row(second, 3),
                              kCount, scalars, 0.75f, spare);
      EXPECT_EQ(std::memcmp(&sum, &expected, sizeof(sum)), 0);
      for (int64_t i = 0; i < 4; ++i)
        EXPECT_EQ(std::memcmp(row(first, i), row(second, i), kCount * sizeof(float)), 0) << i;
    }
}
