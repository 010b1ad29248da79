//===- RowChainTest.cpp - Row operators, alone and in chains ---------------===//

#include "cpu/RowChain.h"
#include "ExecutorFixture.h"
#include "cpu/RowChoice.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <numeric>

using namespace fsdp::test;
using namespace fsdp::rt;

namespace {
c10::OperatorHandle operatorOf(const char *name, const char *overload) {
  return *c10::Dispatcher::singleton().findSchema({name, overload});
}

/// Numbers of all magnitudes and both signs, with zeroes, infinities and some that are none.
at::Tensor allNumbers(at::IntArrayRef sizes) {
  at::Tensor numbers = at::empty(sizes, at::kFloat);
  auto *values = numbers.mutable_data_ptr<float>();
  static uint32_t seed = 1;
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = std::bit_cast<float>(seed ^ (seed >> 13));
  }
  return numbers;
}

/// Equal bits; of what is not a number, only that it is none: which one depends on the order of
/// operands, which compilers may swap.
::testing::AssertionResult areSame(const at::Tensor &ours, const at::Tensor &torchs) {
  for (int64_t i = 0; i < torchs.numel(); ++i) {
    float a = ours.contiguous().const_data_ptr<float>()[i];
    float b = torchs.contiguous().const_data_ptr<float>()[i];
    if (std::bit_cast<uint32_t>(a) != std::bit_cast<uint32_t>(b) && !(a != a && b != b))
      return ::testing::AssertionFailure() << "element " << i << ": " << a << ", torch's is " << b;
  }
  return ::testing::AssertionSuccess();
}

/// Runs a call by torch and as a row operator.
void expectTorchsBits(const char *name, const char *overload, std::vector<c10::IValue> arguments,
                      int threads = 1) {
  SCOPED_TRACE(name);
  c10::OperatorHandle op = operatorOf(name, overload);
  std::vector<c10::IValue> stack = arguments;
  op.callBoxed(stack);
  const at::Tensor expected = stack[0].toTensor();
  at::Tensor result = at::empty_strided(expected.sizes(), expected.strides());
  result.fill_(NAN);
  std::optional<RowOperator> found = RowOperator::of(op, arguments, {&result, 1}, threads);
  ASSERT_TRUE(found) << expected.sizes();
  RowChain chain = RowChain::of(*found, threads);
  at::Tensor workspace = at::empty({static_cast<int64_t>(chain.workspaceBytes()) + 64}, at::kByte);
  workspace.fill_(0xff);
  chain.run(reinterpret_cast<std::byte *>(workspace.mutable_data_ptr()));
  EXPECT_TRUE(areSame(result, expected)) << expected.sizes();
}

class RowChainTest : public ::testing::Test {
protected:
  void SetUp() override {
    at::set_num_threads(1);
    if (!areRowKernelsSupported())
      GTEST_SKIP() << "needs AVX-512";
  }
};
} // namespace

// Operators on each element give torch's bits for rows of all lengths, with gaps between them, and
// for one number in place of a row.
TEST_F(RowChainTest, ElementsHaveTorchsBits) {
  for (int64_t columns : {1, 5, 16, 33, 64, 200}) {
    at::Tensor a = allNumbers({3, 7, columns}), b = allNumbers({3, 7, columns});
    at::Tensor gaps = allNumbers({3, 7, 2 * columns}).narrow(2, columns / 2, columns);
    at::Tensor transposed = allNumbers({7, 3, columns}).transpose(0, 1);
    at::Tensor perRow = allNumbers({3, 7, 1}), perColumn = allNumbers({columns});
    for (const at::Tensor &other : {b, gaps, transposed, perRow, perColumn}) {
      expectTorchsBits("aten::mul", "Tensor", {a, other});
      expectTorchsBits("aten::add", "Tensor", {a, other, 1});
      expectTorchsBits("aten::mul", "Tensor", {other.expand({3, 7, columns}), a});
    }
    for (const at::Tensor &x : {a, gaps, transposed, perRow.expand({3, 7, columns})}) {
      expectTorchsBits("aten::mul", "Scalar", {x, 2.7});
      expectTorchsBits("aten::add", "Scalar", {x, 1e-5, 1});
      expectTorchsBits("aten::div", "Scalar", {x, 511});
      expectTorchsBits("aten::neg", "", {x});
      expectTorchsBits("aten::rsqrt", "", {x});
      for (int64_t exponent : {1, 2, 3})
        expectTorchsBits("aten::pow", "Tensor_Scalar", {x, exponent});
    }
  }
}

// silu and its gradient have the bits of torch's vectors for numbers of all magnitudes, with one
// thread or two.
TEST_F(RowChainTest, SiluHasTorchsBits) {
  for (int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (int64_t rows : {4, 96, 2048}) {
      at::Tensor x = allNumbers({rows, 64}), gradient = allNumbers({rows, 64});
      expectTorchsBits("aten::silu", "", {x}, threads);
      expectTorchsBits("aten::silu_backward", "", {gradient, x}, threads);
      expectTorchsBits("aten::silu_backward", "", {at::randn_like(x), at::randn_like(x) * 8},
                       threads);
    }
  }
}

// Sums along rows and over all rows are torch's cascades, below and above each of their levels.
TEST_F(RowChainTest, SumsHaveTorchsBits) {
  for (int64_t columns : {32, 64, 512, 544, 16 * 512, 17 * 512}) {
    at::Tensor x = at::randn({2, 3, columns});
    expectTorchsBits("aten::mean", "dim", {x, std::vector<int64_t>{-1}, true, c10::IValue()});
    expectTorchsBits("aten::sum", "dim_IntList", {x, std::vector<int64_t>{2}, true, c10::IValue()});
    expectTorchsBits("aten::sum", "dim_IntList",
                     {x, std::vector<int64_t>{2}, false, c10::IValue()});
  }
  for (int64_t rows : {1, 5, 15, 16, 17, 100, 255, 256, 257, 5000})
    expectTorchsBits("aten::sum", "dim_IntList",
                     {at::randn({2, rows, 96}), std::vector<int64_t>{0, 1}, true, c10::IValue()});
}

// Rows are put together from parts of any length and place.
TEST_F(RowChainTest, RowsArePutTogether) {
  at::Tensor x = at::randn({2, 5, 3, 64});
  at::Tensor left = x.narrow(3, 0, 7), right = at::randn({2, 3, 5, 30}).transpose(1, 2);
  expectTorchsBits("aten::cat", "", {std::vector<at::Tensor>{right, left}, -1});
  expectTorchsBits("aten::cat", "", {std::vector<at::Tensor>{left, right, left}, 3});
}

// What torch does not compute by vectors, or in another order, is refused.
TEST_F(RowChainTest, RefusesWhatItCannotRepeat) {
  auto isRefused = [](const char *name, const char *overload, std::vector<c10::IValue> arguments,
                      int threads = 1) {
    c10::OperatorHandle op = operatorOf(name, overload);
    std::vector<c10::IValue> stack = arguments;
    op.callBoxed(stack);
    at::Tensor result = stack[0].toTensor();
    return !RowOperator::of(op, arguments, {&result, 1}, threads);
  };
  at::Tensor x = at::randn({4, 24}), wide = at::randn({4, 64});
  EXPECT_TRUE(isRefused("aten::silu", "", {at::randn({3, 7})}));
  EXPECT_FALSE(isRefused("aten::silu", "", {at::randn({4, 8})}, 1));
  EXPECT_TRUE(isRefused("aten::silu", "", {at::randn({4, 8})}, 2));
  EXPECT_TRUE(isRefused("aten::silu", "", {wide.t()}));
  EXPECT_TRUE(isRefused("aten::add", "Tensor", {x, x, 2}));
  EXPECT_TRUE(isRefused("aten::add", "Scalar", {x, 1, 2}));
  EXPECT_TRUE(isRefused("aten::pow", "Tensor_Scalar", {x, 0.5}));
  EXPECT_TRUE(isRefused("aten::mul", "Tensor", {x.to(at::kDouble), x.to(at::kDouble)}));
  EXPECT_TRUE(
      isRefused("aten::sum", "dim_IntList", {x, std::vector<int64_t>{1}, true, c10::IValue()}));
  EXPECT_TRUE(isRefused("aten::sum", "dim_IntList",
                        {wide, std::vector<int64_t>{0}, true, c10::IValue()}, 2));
  EXPECT_TRUE(isRefused("aten::mul", "Tensor", {x.t(), x.t()}));
}

namespace {
/// x / rms(x) * w + relu(x), and another operator; temporaries share places as a planner lets them.
struct NormPlan {
  static constexpr int64_t kRows = 24, kColumns = 96;
  PlanBuilder builder;
  uint32_t x, w, kept, output, moved, loss;

  NormPlan() {
    const int64_t bytes = kRows * kColumns * 4;
    x = builder.addValue(FSDP_F32, {2, kRows / 2, kColumns});
    w = builder.addValue(FSDP_F32, {kColumns});
    builder.addInput("x", x);
    builder.addInput("w", w);
    auto full = [&](int64_t offset) {
      return builder.addValue(FSDP_F32, {2, kRows / 2, kColumns}, offset);
    };
    auto perRow = [&](int64_t offset) {
      return builder.addValue(FSDP_F32, {2, kRows / 2, 1}, offset);
    };
    uint32_t positive = full(builder.allocate(bytes + kColumns * 4));
    builder.call("relu", "", {value(x)}, {positive});
    int64_t first = builder.allocate(2 * bytes), second = first + bytes;
    uint32_t square = full(first), mean = perRow(second), shifted = perRow(first);
    builder.call("pow", "Tensor_Scalar", {value(x), integer(2)}, {square});
    builder.call("mean", "dim", {value(square), integers({-1}), boolean(true), none()}, {mean});
    builder.call("add", "Scalar", {value(mean), real(1e-5), integer(1)}, {shifted});
    uint32_t root = builder.addValue(FSDP_F32, {2, kRows / 2, 1});
    builder.call("rsqrt", "", {value(shifted)}, {root});
    kept = full(builder.allocate(bytes));
    builder.call("mul", "Tensor", {value(x), value(root)}, {kept});
    uint32_t scaled = full(second);
    builder.call("mul", "Tensor", {value(kept), value(w)}, {scaled});
    output = full(builder.allocate(bytes));
    builder.call("add", "Tensor", {value(scaled), value(positive), integer(1)}, {output});
    uint32_t spread = builder.addStrided(FSDP_F32, {2, kRows / 2, kColumns}, {kRows / 2, 1, 0},
                                         builder.offsetOf(root));
    builder.view("expand", "", {value(root), integers({2, kRows / 2, kColumns}), boolean(false)},
                 {spread});
    // Each row lies where the next row of relu(x) is, which has to be read before.
    moved = full(builder.offsetOf(positive) + kColumns * 4);
    builder.call("div", "Scalar", {value(spread), integer(3)}, {moved});
    uint32_t larger = builder.addValue(FSDP_F32, {2, kRows / 2, kColumns});
    builder.call("maximum", "", {value(output), value(moved)}, {larger});
    loss = builder.addValue(FSDP_F32, {});
    builder.call("sum", "", {value(larger), none()}, {loss});
  }
};
} // namespace

// In a chain results that others read are written, bits are torch's, and operators whose memory is
// that of other rows stay behind the chain.
TEST_F(RowChainTest, ExecutorKeepsItsBits) {
  NormPlan norm;
  fsdp_plan &plan = norm.builder.finish(norm.loss);
  at::Tensor xs = at::randn({2, NormPlan::kRows / 2, NormPlan::kColumns});
  at::Tensor ws = at::randn({NormPlan::kColumns});
  at::Tensor root = at::rsqrt(at::mean(at::pow(xs, 2), {-1}, true) + 1e-5);
  at::Tensor kept = xs * root, output = kept * ws + at::relu(xs);
  at::Tensor moved = at::div(root.expand_as(xs), 3);
  for (OperatorKernels kernels : {OperatorKernels::Torch, OperatorKernels::Fastest}) {
    SingleRank rank(plan, {.kernels = kernels});
    ASSERT_TRUE(rank.status().ok()) << rank.status().message();
    rank.tensor(norm.builder.offsetOf(norm.x), xs.sizes()).copy_(xs);
    rank.tensor(norm.builder.offsetOf(norm.w), ws.sizes()).copy_(ws);
    for (int64_t step = 1; step <= 3; ++step) {
      for (uint32_t result : {norm.kept, norm.output, norm.moved})
        rank.tensor(norm.builder.offsetOf(result), xs.sizes()).fill_(NAN);
      EXPECT_EQ(rank.step(step).loss, at::maximum(output, moved).sum().item<float>());
      EXPECT_TRUE(at::equal(rank.tensor(norm.builder.offsetOf(norm.output), xs.sizes()), output));
      EXPECT_TRUE(at::equal(rank.tensor(norm.builder.offsetOf(norm.moved), xs.sizes()), moved));
    }
    EXPECT_EQ(rank.executor().statistics().replacedOperators,
              kernels == OperatorKernels::Torch ? 0 : 7);
  }
}

// A chain is traced as its first entry, of whose time each of its entries has a share.
TEST_F(RowChainTest, ExecutorTellsShares) {
  NormPlan norm;
  fsdp_plan &plan = norm.builder.finish(norm.loss);
  SingleRank rank(plan);
  rank.step(1);
  std::map<uint32_t, std::vector<double>> chains;
  std::vector<EntryShare> shares = rank.executor().shares();
  ASSERT_EQ(shares.size(), plan.num_entries);
  for (auto [entry, share] : shares)
    chains[entry].push_back(share);
  size_t chained = 0;
  for (const auto &[first, parts] : chains) {
    EXPECT_EQ(shares[first].entry, first);
    EXPECT_NEAR(std::accumulate(parts.begin(), parts.end(), 0.0), 1, 1e-12);
    if (parts.size() > 1) {
      chained += parts.size();
      EXPECT_GT(*std::ranges::min_element(parts), 0);
    }
  }
  EXPECT_EQ(chained, 7u);
}
