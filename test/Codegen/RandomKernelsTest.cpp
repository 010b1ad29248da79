//===- RandomKernelsTest.cpp - Generated kernels beside torch's operators -===//
//
// --kernels=3000 --seed=7 for a longer run.
//
//===----------------------------------------------------------------------===//

#include "KernelReferences.h"
#include "RandomKernel.h"
#include "RunnableLevels.h"
#include "fsdp/Codegen/CpuKernels.h"
#include "fsdp/Codegen/NativeKernels.h"
#include "mlir/IR/Verifier.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <gtest/gtest.h>

#include <cstring>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::test;

static unsigned numKernels = 150, firstSeed = 1;

/// The results of all units, computed in two parts; memory beside them is checked.
static std::vector<at::Tensor> run(const RandomKernel &random, const codegen::CpuKernel &kernel,
                                   fsdp_kernel_function function) {
  std::vector<at::Tensor> results;
  std::vector<void *> tensors;
  for (const at::Tensor &input : random.inputs)
    tensors.push_back(input.data_ptr());
  for (const at::Tensor &expected : random.expected) {
    results.push_back(at::empty_strided(expected.sizes(), expected.strides(), expected.options()));
    std::memset(results.back().data_ptr(), 0xa5, results.back().nbytes());
    tensors.push_back(results.back().data_ptr());
  }
  function(tensors.data(), kernel.units / 2, kernel.units);
  function(tensors.data(), 0, kernel.units / 2);
  return results;
}

static std::string print(KernelOp kernel) {
  std::string text;
  llvm::raw_string_ostream(text) << kernel;
  return text;
}

/// Equal bits, but that any NaN is as good as another.
static bool areEqual(const at::Tensor &a, const at::Tensor &b) {
  if (a.scalar_type() == at::kBool)
    return a.equal(b);
  at::Tensor x = a.to(at::kFloat), y = b.to(at::kFloat);
  at::Tensor bothNan = x.isnan().logical_and(y.isnan());
  at::Tensor equal = x.contiguous().view(at::kInt).eq(y.contiguous().view(at::kInt));
  return equal.logical_or(bothNan).all().item<bool>();
}

static void testKernels(Rounding rounding) {
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<aten::AtenDialect, FsdpDialect>();
  auto native = llvm::cantFail(codegen::NativeKernels::create());
  const unsigned levels = getNumRunnableLevels();
  for (unsigned seed = firstSeed; seed < firstSeed + numKernels; ++seed) {
    std::mt19937 random(seed);
    at::manual_seed(seed);
    RandomKernel drawn = drawKernel(context, rounding, random);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(drawn.kernel));
    ASSERT_TRUE(succeeded(verify(*drawn.module)));
    FailureOr<codegen::CpuKernels> built = codegen::buildCpuKernels(drawn.kernel);
    ASSERT_TRUE(succeeded(built));
    llvm::cantFail(native.add(built->bitcode));
    for (unsigned level = 0; level < levels; ++level) {
      fsdp_kernel_function function =
          llvm::cantFail(native.lookup(built->kernels[0].functions[level]));
      std::vector<at::Tensor> results = run(drawn, built->kernels[0], function);
      for (size_t i = 0; i < results.size(); ++i) {
        SCOPED_TRACE("level " + std::to_string(level) + ", result " + std::to_string(i));
        if (rounding == Rounding::Fast)
          checkBound(results[i], drawn.single[i], drawn.precise[i]);
        else
          EXPECT_TRUE(areEqual(results[i], drawn.expected[i]));
      }
    }
    if (::testing::Test::HasFailure())
      return;
  }
}

// An exact kernel gives the bits of torch's operators, by every instruction set of this machine.
TEST(RandomKernels, ExactOnesGiveTorchsBits) { testKernels(Rounding::Exact); }

// A fast kernel is as near to fp64 as its bound says.
TEST(RandomKernels, FastOnesKeepTheirBound) { testKernels(Rounding::Fast); }

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef flag(argv[i]);
    if (flag.consume_front("--kernels="))
      flag.getAsInteger(10, numKernels);
    else if (flag.consume_front("--seed="))
      flag.getAsInteger(10, firstSeed);
  }
  std::printf("%u kernels of each kind, seeds from %u on\n", numKernels, firstSeed);
  return RUN_ALL_TESTS();
}
