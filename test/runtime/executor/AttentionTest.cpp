//===- AttentionTest.cpp - Attention of the runtime, beside torch's ---------===//

#include "ExecutorFixture.h"
#include "cpu/AttentionChoice.h"
#include "cpu/Avx512Exp.h"
#include "cpu/KernelChoice.h"

#include <ATen/Functions.h>

#include <cmath>
#include <cstring>

using namespace fsdp::test;
using namespace fsdp::rt;

namespace {
struct Sizes {
  int64_t batch, queryHeads, keyHeads, queries, keys, headSize;
  bool isCausal;
};

c10::OperatorHandle operatorOf(const char *suffix) {
  std::string name = "aten::_scaled_dot_product_flash_attention_for_cpu";
  return *c10::Dispatcher::singleton().findSchema({name + suffix, ""});
}

/// A tensor [batch, heads, rows, head size] in memory as a layer's output has it: by rows first.
at::Tensor heads(int64_t batch, int64_t heads, int64_t rows, int64_t size) {
  return at::randn({batch, rows, heads, size}).transpose(1, 2);
}

/// The tensors that attention and its backward read.
struct Tensors {
  at::Tensor query, key, value, gradient;
  explicit Tensors(const Sizes &s)
      : query(heads(s.batch, s.queryHeads, s.queries, s.headSize)),
        key(heads(s.batch, s.keyHeads, s.keys, s.headSize)),
        value(heads(s.batch, s.keyHeads, s.keys, s.headSize)),
        gradient(heads(s.batch, s.queryHeads, s.queries, s.headSize)) {}
};

std::vector<at::Tensor> callTorch(const c10::OperatorHandle &op, std::vector<c10::IValue> stack) {
  op.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue &result : stack)
    results.push_back(result.toTensor());
  return results;
}

/// Runs FlashAttention for a call. Nothing if it does not take the call; what it declines leaves
/// the results NaN.
std::optional<std::vector<at::Tensor>> callOurs(const c10::OperatorHandle &op,
                                                const std::vector<c10::IValue> &arguments,
                                                const std::vector<at::Tensor> &like,
                                                int threads = 1) {
  std::vector<at::Tensor> results;
  for (const at::Tensor &tensor : like)
    results.push_back(
        at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).fill_(NAN));
  std::optional<AttentionCall> call = AttentionCall::of(op, arguments, results);
  if (!call || !FlashAttention::isSupported(call->shape))
    return std::nullopt;
  FlashAttention attention(call->shape, call->isBackward, knownDepth, threads);
  at::Tensor workspace = at::empty({static_cast<int64_t>(attention.workspaceBytes())}, at::kByte);
  workspace.fill_(0xff);
  attention.run(call->operands, reinterpret_cast<std::byte *>(workspace.mutable_data_ptr()));
  return results;
}

std::vector<c10::IValue> forwardArguments(const Tensors &t, bool isCausal) {
  return {t.query, t.key, t.value, 0.0, isCausal, c10::IValue(), c10::IValue()};
}

void expectSameBits(const std::vector<at::Tensor> &ours, const std::vector<at::Tensor> &torchs,
                    const std::string &what) {
  ASSERT_EQ(ours.size(), torchs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    at::Tensor a = ours[i].contiguous(), b = torchs[i].contiguous();
    EXPECT_EQ(std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()), 0)
        << what << ", result " << i;
  }
}

/// Both directions, beside torch's operators.
void expectTorchsBits(const Tensors &t, bool isCausal, const std::string &what, int threads = 1) {
  std::vector<c10::IValue> arguments = forwardArguments(t, isCausal);
  std::vector<at::Tensor> torchs = callTorch(operatorOf(""), arguments);
  auto ours = callOurs(operatorOf(""), arguments, torchs, threads);
  ASSERT_TRUE(ours) << what;
  expectSameBits(*ours, torchs, what + " forward");
  arguments.insert(arguments.begin(), t.gradient);
  arguments.insert(arguments.begin() + 4, {torchs[0], torchs[1]});
  torchs = callTorch(operatorOf("_backward"), arguments);
  ours = callOurs(operatorOf("_backward"), arguments, torchs, threads);
  ASSERT_TRUE(ours) << what;
  expectSameBits(*ours, torchs, what + " backward");
}

std::string describe(const Sizes &s) {
  std::string text;
  for (int64_t size : {s.batch, s.queryHeads, s.keyHeads, s.queries, s.keys, s.headSize})
    text += std::to_string(size) + " ";
  return text + (s.isCausal ? "causal" : "full");
}
} // namespace

class AttentionTest : public testing::Test {
protected:
  void SetUp() override {
    at::set_num_threads(1);
    if (!BlockedGemm::isSupported())
      GTEST_SKIP() << "this processor has no AVX-512";
    // Whether torch's BLAS library is the one whose order of additions is known.
    Tensors t({1, 1, 1, 256, 256, 32, true});
    std::vector<c10::IValue> arguments = forwardArguments(t, true);
    std::vector<at::Tensor> torchs = callTorch(operatorOf(""), arguments);
    auto ours = callOurs(operatorOf(""), arguments, torchs);
    if (!at::equal((*ours)[0], torchs[0]))
      GTEST_SKIP() << "torch's BLAS library adds in another order";
  }
};

// Results and gradients have torch's bits: whole blocks of queries and not, few keys and several
// chains of additions, shared keys, narrow and wide heads, with the mask and without.
TEST_F(AttentionTest, HasTorchsBits) {
  for (const Sizes &s : {Sizes{2, 8, 4, 128, 128, 32, true}, Sizes{1, 4, 4, 128, 128, 64, false},
                         Sizes{1, 2, 1, 100, 112, 48, true}, Sizes{1, 2, 2, 7, 16, 16, true},
                         Sizes{2, 3, 1, 40, 48, 80, false}, Sizes{1, 2, 2, 300, 304, 32, true},
                         Sizes{1, 1, 1, 1000, 496, 16, false}, Sizes{1, 2, 1, 512, 512, 128, true},
                         Sizes{1, 2, 2, 64, 256, 32, true}})
    expectTorchsBits(Tensors(s), s.isCausal, describe(s));
}

// Operands may lie in memory in any order of their dimensions but the last.
TEST_F(AttentionTest, TakesOtherLayouts) {
  Sizes s{2, 4, 2, 40, 48, 32, true};
  Tensors t(s);
  t.query = t.query.contiguous();
  t.key = at::randn({2, 48, 2, 96}).transpose(1, 2).narrow(3, 32, 32);
  t.value = at::randn({2, 48, 2, 64}).transpose(1, 2).narrow(3, 16, 32);
  expectTorchsBits(t, s.isCausal, "other layouts");
}

// Zeros of either sign among the values, and products that vanish below the smallest number.
TEST_F(AttentionTest, KeepsTheSignsOfZeros) {
  Sizes s{1, 2, 1, 64, 64, 32, true};
  Tensors t(s);
  t.value.select(3, 3).fill_(0.0);
  t.value.select(3, 4).fill_(-0.0);
  t.value.select(3, 5).fill_(-1e-45f).select(2, 0).fill_(0.0);
  t.query.mul_(20);
  expectTorchsBits(t, s.isCausal, "zeros");
}

// Far apart scores, where exponentials vanish.
TEST_F(AttentionTest, TakesLargeScores) {
  Sizes s{1, 2, 2, 64, 64, 32, true};
  Tensors t(s);
  t.query.mul_(100);
  expectTorchsBits(t, s.isCausal, "large scores");
}

// Threads share the heads; no bit changes.
TEST_F(AttentionTest, ThreadsChangeNothing) {
  at::set_num_threads(3);
  Sizes s{2, 4, 2, 64, 64, 32, true};
  expectTorchsBits(Tensors(s), s.isCausal, "3 threads", 3);
  at::set_num_threads(1);
}

// Where a masked number times zero could be more than zero, the kernel writes nothing.
TEST_F(AttentionTest, DeclinesNumbersThatOverflow) {
  Sizes s{1, 2, 2, 32, 32, 32, true};
  for (float number : {INFINITY, NAN, 1e38f}) {
    Tensors t(s);
    t.value.select(2, 31).fill_(number);
    std::vector<c10::IValue> arguments = forwardArguments(t, true);
    std::vector<at::Tensor> torchs = callTorch(operatorOf(""), arguments);
    auto ours = callOurs(operatorOf(""), arguments, torchs);
    ASSERT_TRUE(ours);
    EXPECT_TRUE(at::isnan((*ours)[0]).all().item<bool>()) << number;
  }
}

// What is not plain attention in fp32 stays with torch.
TEST_F(AttentionTest, LeavesOtherCallsAlone) {
  auto takes = [](const Sizes &s, auto change) {
    Tensors t(s);
    std::vector<c10::IValue> arguments = forwardArguments(t, s.isCausal);
    std::vector<at::Tensor> results = callTorch(operatorOf(""), arguments);
    change(arguments, results);
    return callOurs(operatorOf(""), arguments, results).has_value();
  };
  Sizes s{1, 2, 2, 32, 32, 32, true};
  using Arguments = std::vector<c10::IValue> &;
  using Results = std::vector<at::Tensor> &;
  EXPECT_TRUE(takes(s, [](Arguments, Results) {}));
  EXPECT_FALSE(takes(s, [](Arguments a, Results) { a[3] = 0.5; }));
  EXPECT_FALSE(takes(s, [](Arguments a, Results) { a[5] = at::zeros({32, 32}); }));
  EXPECT_FALSE(takes(s, [](Arguments a, Results) { a[0] = a[0].toTensor().to(at::kDouble); }));
  EXPECT_FALSE(takes(s, [](Arguments, Results r) { r.pop_back(); }));
  EXPECT_FALSE(takes({1, 2, 2, 32, 33, 32, true}, [](Arguments, Results) {}));
  EXPECT_FALSE(takes({1, 2, 2, 32, 32, 24, true}, [](Arguments, Results) {}));
  EXPECT_FALSE(takes({1, 2, 2, 32, 528, 32, true}, [](Arguments, Results) {}));
  EXPECT_FALSE(takes(s, [](Arguments a, Results) {
    a[1] = a[1].toTensor().transpose(2, 3).contiguous().transpose(2, 3);
  }));
}

// An executor's kernel computes what the operator would; what it declines, the operator computes.
TEST_F(AttentionTest, ChosenKernelsHaveTorchsBits) {
  KernelChooser chooser(1);
  Sizes s{4, 8, 4, 128, 128, 32, true};
  Tensors t(s);
  std::vector<c10::IValue> arguments = forwardArguments(t, true);
  std::vector<at::Tensor> torchs = callTorch(operatorOf(""), arguments), results;
  for (const at::Tensor &tensor : torchs)
    results.push_back(at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()));
  std::unique_ptr<OperatorKernel> kernel = chooser.choose(operatorOf(""), arguments, results);
  if (!kernel)
    GTEST_SKIP() << "torch's operator was faster";
  at::Tensor workspace = at::empty({static_cast<int64_t>(kernel->workspaceBytes())}, at::kByte);
  auto *memory = reinterpret_cast<std::byte *>(workspace.mutable_data_ptr());
  EXPECT_TRUE(kernel->run(memory));
  expectSameBits(results, torchs, "chosen");
  t.value.fill_(INFINITY);
  EXPECT_FALSE(kernel->run(memory));
}

#if defined(__x86_64__)
namespace {
FSDP_AVX512 void exponentials(const float *x, float *precise, float *fast) {
  _mm512_storeu_ps(precise, sleefExp(_mm512_loadu_ps(x)));
  _mm512_storeu_ps(fast, fastExp(_mm512_loadu_ps(x)));
}
} // namespace

// Both exponentials are within their errors on numbers of all sizes; their bits are compared where
// attention is.
TEST_F(AttentionTest, ExponentialsAreWithinTheirErrors) {
  for (uint64_t first = 0; first < (1ull << 32); first += 16 * 9973) {
    float x[kLanes], precise[kLanes], fast[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) {
      uint32_t bits = static_cast<uint32_t>(first + 977 * i);
      std::memcpy(x + i, &bits, sizeof bits);
    }
    exponentials(x, precise, fast);
    for (int64_t i = 0; i < kLanes; ++i) {
      double exact = std::exp(static_cast<double>(x[i]));
      if (!std::isfinite(x[i]) || exact > 3.4e38 || exact < 1.8e-38)
        continue;
      EXPECT_LE(std::abs(precise[i] - exact), exact * 0x1p-23) << x[i];
      EXPECT_LE(std::abs(fast[i] - exact), exact * 20 * 0x1p-23) << x[i];
    }
  }
}
#endif
