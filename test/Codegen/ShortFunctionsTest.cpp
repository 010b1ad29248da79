//===- ShortFunctionsTest.cpp - Functions of every bf16 and f16 ------------===//

#include "RunnableLevels.h"
#include "fsdp/Codegen/CpuKernels.h"
#include "fsdp/Codegen/NativeKernels.h"
#include "fsdp/Codegen/ScalarCode.h"
#include "mlir/Parser/Parser.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/tanh_backward.h>

#include <gtest/gtest.h>

using namespace mlir;
using namespace fsdp;

static constexpr int64_t kNumbers = 65536;

namespace {
/// An exact kernel of one call. The last operand has all numbers, another one is one number.
class FunctionKernel {
public:
  FunctionKernel(const std::string &callee, unsigned operands, at::ScalarType dtype)
      : context(MLIRContext::Threading::DISABLED), dtype(dtype) {
    context.loadDialect<aten::AtenDialect, FsdpDialect>();
    const std::string element = dtype == at::kHalf ? "f16" : "bf16",
                      all = "tensor<65536x" + element + ">", one = "tensor<" + element + ">";
    std::string text = "fsdp.kernel @kernel exact {\n^bb0(" +
                       (operands == 2 ? "%g: " + one + ", " : std::string()) + "%x: " + all +
                       "):\n  %y = aten.call \"" + callee + "\"(" + (operands == 2 ? "%g, " : "") +
                       "%x) fwd in \"\" : (" + (operands == 2 ? one + ", " : "") + all + ") -> " +
                       all + "\n  fsdp.yield %y : " + all + "\n}";
    module = parseSourceString<ModuleOp>(text, &context);
    FailureOr<codegen::CpuKernels> built =
        codegen::buildCpuKernels(*module->getOps<KernelOp>().begin());
    if (failed(built))
      return;
    llvm::cantFail(native.add(built->bitcode));
    units = built->kernels[0].units;
    for (unsigned level = 0; level < test::getNumRunnableLevels(); ++level)
      functions.push_back(llvm::cantFail(native.lookup(built->kernels[0].functions[level])));
  }

  size_t numLevels() const { return functions.size(); }
  at::Tensor run(unsigned level, std::vector<at::Tensor> operands) {
    at::Tensor result = at::empty(kNumbers, dtype);
    operands.push_back(result);
    std::vector<void *> addresses;
    for (const at::Tensor &tensor : operands)
      addresses.push_back(tensor.data_ptr());
    functions[level](addresses.data(), 0, units);
    return result;
  }

private:
  MLIRContext context;
  at::ScalarType dtype;
  OwningOpRef<ModuleOp> module;
  codegen::NativeKernels native = llvm::cantFail(codegen::NativeKernels::create());
  std::vector<fsdp_kernel_function> functions;
  int64_t units = 0;
};
} // namespace

static at::Tensor getAllNumbers(at::ScalarType dtype) {
  return at::arange(kNumbers, at::kInt).to(at::kShort).view(dtype);
}

/// The number of elements with other bits, but that any NaN is as good as another.
static int64_t countOthers(const at::Tensor &a, const at::Tensor &b) {
  at::Tensor isEqual = a.view(at::kShort).eq(b.view(at::kShort));
  return kNumbers - isEqual.logical_or(a.isnan().logical_and(b.isnan())).sum().item<int64_t>();
}

class ShortFunctions : public testing::Test {
protected:
  ShortFunctions() { at::set_num_threads(1); }
  ~ShortFunctions() override { at::set_num_threads(threads); }

private:
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  int threads = at::get_num_threads();
};

// An exact kernel has torch's bits of each number.
TEST_F(ShortFunctions, HaveTorchsBitsOfEachNumber) {
  using Function = at::Tensor (*)(const at::Tensor &);
  const std::pair<const char *, Function> functions[] = {{"exp.default", at::exp},
                                                         {"sigmoid.default", at::sigmoid},
                                                         {"tanh.default", at::tanh},
                                                         {"silu.default", at::silu},
                                                         {"sqrt.default", at::sqrt}};
  for (at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    for (auto [callee, function] : functions) {
      SCOPED_TRACE(std::string(callee) + " of " + at::toString(dtype));
      const at::Tensor numbers = getAllNumbers(dtype), expected = function(numbers);
      FunctionKernel kernel(callee, 1, dtype);
      ASSERT_GT(kernel.numLevels(), 0u);
      for (unsigned level = 0; level < kernel.numLevels(); ++level)
        EXPECT_EQ(countOthers(kernel.run(level, {numbers}), expected), 0) << "level " << level;
    }
}

// So have the backwards in bf16: with gradients of each mantissa, and of some exponents and signs.
TEST_F(ShortFunctions, HaveTorchsBitsInTheirBackwards) {
  using Function = at::Tensor (*)(const at::Tensor &, const at::Tensor &);
  const std::pair<const char *, Function> functions[] = {
      {"sigmoid_backward.default", at::sigmoid_backward},
      {"tanh_backward.default", at::tanh_backward},
      {"silu_backward.default", at::silu_backward}};
  constexpr int64_t kOne = 0x3f80, kMantissas = 128, kStep = 257;
  const at::Tensor numbers = getAllNumbers(at::kBFloat16);
  const at::Tensor gradients =
      at::cat({numbers.slice(0, kOne, kOne + kMantissas), numbers.slice(0, 0, kNumbers, kStep)});
  for (auto [callee, function] : functions) {
    SCOPED_TRACE(callee);
    FunctionKernel kernel(callee, 2, at::kBFloat16);
    ASSERT_GT(kernel.numLevels(), 0u);
    for (int64_t i = 0; i < gradients.numel(); ++i) {
      at::Tensor gradient = gradients.slice(0, i, i + 1);
      const at::Tensor expected = function(gradient.expand(kNumbers).contiguous(), numbers);
      for (unsigned level = 0; level < kernel.numLevels(); ++level)
        ASSERT_EQ(countOthers(kernel.run(level, {gradient, numbers}), expected), 0)
            << "level " << level << ", gradient " << gradient.item<float>();
    }
  }
}
