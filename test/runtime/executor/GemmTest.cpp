//===- GemmTest.cpp - The blocked product, and when it is chosen -----------===//

#include "ExecutorFixture.h"
#include "cpu/GemmChoice.h"

#include <ATen/Functions.h>

#include <cmath>
#include <cstring>

using namespace fsdp::test;
using namespace fsdp::rt;

namespace {
c10::OperatorHandle operatorOf(const char *name) {
  return *c10::Dispatcher::singleton().findSchema({name, ""});
}

std::vector<c10::IValue> mmOf(const at::Tensor &a, const at::Tensor &b) { return {a, b}; }

/// BlockedGemm's result for a call, with the bits it should have by its definition.
void expectDeclaredOrder(const char *name, const std::vector<c10::IValue> &arguments, int64_t depth,
                         int threads = 1) {
  std::optional<GemmCall> call = GemmCall::of(operatorOf(name), arguments);
  ASSERT_TRUE(call);
  const GemmShape &s = call->shape;
  at::Tensor result = at::full({s.batch, s.m, s.n}, NAN), expected = at::empty_like(result);
  GemmOperands operands = call->operands;
  operands.c = result.mutable_data_ptr<float>();
  BlockedGemm gemm(s, {depth}, threads);
  at::Tensor workspace = at::empty({static_cast<int64_t>(gemm.workspaceBytes())}, at::kByte);
  workspace.fill_(0xff);
  gemm.run(operands, reinterpret_cast<std::byte *>(workspace.mutable_data_ptr()));

  auto *out = expected.mutable_data_ptr<float>();
  for (int64_t batch = 0; batch < s.batch; ++batch)
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        const float *a = operands.a + batch * s.a.batch + i * s.a.row;
        const float *b = operands.b + batch * s.b.batch + j * s.b.column;
        float total = s.hasBias ? operands.bias[i * s.bias.row + j * s.bias.column] : 0;
        for (int64_t begin = 0; begin < s.k; begin += depth) {
          float sum = 0;
          for (int64_t k = begin; k < std::min(begin + depth, s.k); ++k)
            sum = std::fma(a[k * s.a.column], b[k * s.b.row], sum);
          total += sum;
        }
        *out++ = total;
      }
  EXPECT_EQ(std::memcmp(operands.c, expected.const_data_ptr(), expected.nbytes()), 0)
      << name << " batch " << s.batch << " m " << s.m << " n " << s.n << " k " << s.k << " depth "
      << depth;
}

/// A matrix, stored by rows or by columns.
at::Tensor matrix(int64_t rows, int64_t columns, bool byRows) {
  return byRows ? at::randn({rows, columns}) : at::randn({columns, rows}).t();
}
} // namespace

class GemmTest : public testing::Test {
protected:
  void SetUp() override {
    if (!BlockedGemm::isSupported())
      GTEST_SKIP() << "this processor has no AVX-512";
    at::set_num_threads(1);
  }
};

// Every element is the sum that the header declares, for all remainders of tiles, vectors and
// depths and both layouts of both operands.
TEST_F(GemmTest, AddsInTheDeclaredOrder) {
  struct Size {
    int64_t m, n, k, depth;
  };
  for (Size size : {Size{1, 1, 1, 1}, Size{8, 48, 16, 16}, Size{5, 7, 3, 2}, Size{9, 49, 17, 16},
                    Size{15, 31, 40, 192}, Size{70, 100, 65, 20}, Size{17, 600, 33, 33},
                    Size{19, 550, 300, 192}})
    for (bool aByRows : {false, true})
      for (bool bByRows : {false, true})
        expectDeclaredOrder("aten::mm",
                            mmOf(matrix(size.m, size.k, aByRows), matrix(size.k, size.n, bByRows)),
                            size.depth);
}

// Operands may be parts of larger tensors, with no stride of 1.
TEST_F(GemmTest, TakesAnyStrides) {
  at::Tensor a = at::randn({40, 60}).slice(0, 0, 40, 2).slice(1, 1, 60, 3);
  at::Tensor b = at::randn({20, 99}).slice(1, 0, 99, 2);
  expectDeclaredOrder("aten::mm", mmOf(a, b), 7);
}

// Columns of A that would crowd each other out of the caches are packed first, in blocks of rows.
TEST_F(GemmTest, PacksColumnsThatCrowdTheCache) {
  at::Tensor a = at::randn({200, 1024}).slice(1, 0, 75).t();
  expectDeclaredOrder("aten::mm", mmOf(a, at::randn({200, 50})), 192);
}

// A batch of products, one of whose operands is the same for all.
TEST_F(GemmTest, MultipliesBatches) {
  at::Tensor a = at::randn({3, 20, 30}), b = at::randn({30, 50}).expand({3, 30, 50});
  expectDeclaredOrder("aten::bmm", {a, b}, 16);
}

// A bias is where the sums begin, whether it is a row, a column or a whole matrix.
TEST_F(GemmTest, AddsBiases) {
  at::Tensor a = at::randn({20, 30}), b = at::randn({30, 50});
  for (const at::Tensor &bias :
       {at::randn({50}), at::randn({20, 1}), at::randn({20, 50}), at::randn({})})
    expectDeclaredOrder("aten::addmm", {bias, a, b, 1, 1}, 16);
}

// Products too small for a number leave zeros, whose sign is torch's.
TEST_F(GemmTest, HasTorchsZeros) {
  at::Tensor a = at::randn({128, 64}).mul_(1e-30f), b = at::randn({64, 128}).mul_(1e-30f);
  std::vector<c10::IValue> arguments = mmOf(a, b);
  c10::OperatorHandle mm = operatorOf("aten::mm");
  GemmCall call = *GemmCall::of(mm, arguments);
  GemmChooser chooser(1);
  chooser.choose(call, mm, arguments);
  if (!chooser.tried().at(0).sameBits)
    GTEST_SKIP() << "torch's BLAS library adds in another order";
  at::Tensor result = at::empty({128, 128}), expected = at::mm(a, b);
  call.operands.c = result.mutable_data_ptr<float>();
  BlockedGemm gemm(call.shape, chooser.tried().at(0).order, 1);
  at::Tensor workspace = at::empty({static_cast<int64_t>(gemm.workspaceBytes())}, at::kByte);
  gemm.run(call.operands, reinterpret_cast<std::byte *>(workspace.mutable_data_ptr()));
  EXPECT_EQ(std::memcmp(call.operands.c, expected.const_data_ptr(), expected.nbytes()), 0);
}

// Threads share the work in either direction; no bit changes.
TEST_F(GemmTest, ThreadsChangeNothing) {
  at::set_num_threads(3);
  expectDeclaredOrder("aten::mm", mmOf(at::randn({400, 30}), at::randn({30, 60})), 16, 3);
  expectDeclaredOrder("aten::mm", mmOf(at::randn({40, 30}), at::randn({30, 700})), 16, 3);
  at::set_num_threads(1);
}

// What is not a plain product of fp32 matrices stays with torch.
TEST_F(GemmTest, LeavesOtherCallsAlone) {
  at::Tensor a = at::randn({4, 6}), b = at::randn({6, 5}), bias = at::randn({5});
  EXPECT_TRUE(GemmCall::of(operatorOf("aten::mm"), {a, b}));
  EXPECT_TRUE(GemmCall::of(operatorOf("aten::addmm"), {bias, a, b, 1.0, 1}));
  EXPECT_FALSE(GemmCall::of(operatorOf("aten::mm"), {a.to(at::kDouble), b.to(at::kDouble)}));
  EXPECT_FALSE(GemmCall::of(operatorOf("aten::mm"), {at::randn({0, 6}), b}));
  EXPECT_FALSE(GemmCall::of(operatorOf("aten::mm"), {at::randn({4, 0}), at::randn({0, 5})}));
  EXPECT_FALSE(GemmCall::of(operatorOf("aten::addmm"), {bias, a, b, 0.5, 1}));
  EXPECT_FALSE(GemmCall::of(operatorOf("aten::addmm"), {bias, a, b, 1, 2}));
  EXPECT_FALSE(GemmCall::of(operatorOf("aten::relu"), {a}));
}

// A kernel whose sums are added in another order than torch's is refused for its bits, before time
// is looked at.
TEST_F(GemmTest, RefusesOtherBits) {
  GemmChooser chooser(1, [](int64_t) -> int64_t { return 5; });
  std::vector<c10::IValue> arguments = mmOf(at::randn({64, 384}), at::randn({384, 96}));
  c10::OperatorHandle mm = operatorOf("aten::mm");
  EXPECT_FALSE(chooser.choose(*GemmCall::of(mm, arguments), mm, arguments));
  ASSERT_EQ(chooser.tried().size(), 1u);
  EXPECT_FALSE(chooser.tried()[0].sameBits);
}

// What is chosen gives torch's bits, on other data than those it was tried with; a shape is tried
// once.
TEST_F(GemmTest, ChoosesSameBits) {
  GemmChooser chooser(1);
  at::Tensor bias = at::randn({200});
  struct Call {
    const char *name;
    std::vector<c10::IValue> arguments;
  };
  std::vector<Call> calls;
  for (int64_t k : {100, 250, 512}) {
    at::Tensor a = at::randn({128, k}), b = at::randn({k, 200});
    calls.push_back({"aten::mm", {a, b}});
    calls.push_back({"aten::mm", {a, at::randn({200, k}).t()}});
    calls.push_back({"aten::mm", {at::randn({k, 128}).t(), b}});
    calls.push_back({"aten::addmm", {bias, a, b, 1, 1}});
    calls.push_back({"aten::addmm", {at::randn({}), a, b, 1, 1}});
    calls.push_back({"aten::bmm", {at::randn({2, 96, k}), at::randn({2, k, 64})}});
  }
  for (int round = 0; round < 2; ++round)
    for (const Call &call : calls) {
      c10::OperatorHandle op = operatorOf(call.name);
      GemmCall gemm = *GemmCall::of(op, call.arguments);
      std::optional<BlockedGemm> chosen = chooser.choose(gemm, op, call.arguments);
      if (!chosen)
        continue;
      std::vector<c10::IValue> stack = call.arguments;
      op.callBoxed(stack);
      at::Tensor result = at::empty_like(stack[0].toTensor());
      gemm.operands.c = result.mutable_data_ptr<float>();
      at::Tensor workspace = at::empty({static_cast<int64_t>(chosen->workspaceBytes())}, at::kByte);
      chosen->run(gemm.operands, reinterpret_cast<std::byte *>(workspace.mutable_data_ptr()));
      EXPECT_TRUE(at::equal(result, stack[0].toTensor())) << call.name;
    }
  EXPECT_EQ(chooser.tried().size(), calls.size());
}

// An executor computes the same bits with either choice; the workspace is in its scratch memory.
TEST_F(GemmTest, ExecutorKeepsItsBits) {
  PlanBuilder builder;
  uint32_t x = builder.addValue(FSDP_F32, {256, 400}), w = builder.addValue(FSDP_F32, {400, 192});
  builder.addInput("x", x);
  builder.addInput("w", w);
  uint32_t y = builder.addValue(FSDP_F32, {256, 192}), loss = builder.addValue(FSDP_F32, {});
  builder.call("mm", "", {value(x), value(w)}, {y});
  builder.call("sum", "", {value(y), none()}, {loss});
  fsdp_plan &plan = builder.finish(loss);
  at::Tensor xs = at::randn({256, 400}), ws = at::randn({400, 192});
  for (OperatorKernels kernels : {OperatorKernels::Torch, OperatorKernels::Fastest}) {
    SingleRank rank(plan, {.kernels = kernels});
    ASSERT_TRUE(rank.status().ok()) << rank.status().message();
    rank.tensor(builder.offsetOf(x), {256, 400}).copy_(xs);
    rank.tensor(builder.offsetOf(w), {400, 192}).copy_(ws);
    for (int64_t step = 1; step <= 3; ++step) {
      rank.tensor(builder.offsetOf(y), {256, 192}).fill_(NAN);
      rank.step(step);
      EXPECT_TRUE(at::equal(rank.tensor(builder.offsetOf(y), {256, 192}), at::mm(xs, ws)));
    }
    const ExecutorStatistics &statistics = rank.executor().statistics();
    EXPECT_EQ(statistics.fallbackAllocations, 0);
    if (kernels == OperatorKernels::Torch) {
      EXPECT_EQ(statistics.replacedOperators, 0);
      EXPECT_EQ(statistics.scratchBytes, 0);
    } else if (statistics.replacedOperators != 0) {
      EXPECT_EQ(statistics.plannedAllocations, 1);
      EXPECT_GT(statistics.scratchBytes, 0);
    }
  }
}
