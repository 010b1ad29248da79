//===- PtxTest.cpp - Generated kernels assembled for GPUs -----------------===//

#include "RandomKernel.h"
#include "fsdp/Codegen/PtxKernels.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::test;

// Kernels of all kinds are PTX that NVIDIA's assembler takes for three generations of GPUs.
TEST(Ptx, AssemblesForEveryChip) {
  if (std::string(FSDP_TEST_PTXAS).empty())
    GTEST_SKIP() << "there is no ptxas";
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir());
  for (const char *chip : {"sm_80", "sm_90", "sm_100"}) {
    SCOPED_TRACE(chip);
    MLIRContext context(MLIRContext::Threading::DISABLED);
    context.loadDialect<aten::AtenDialect, FsdpDialect>();
    const std::vector<RandomKernel> drawn = drawKernels(context);
    std::vector<KernelOp> kernels;
    for (const RandomKernel &one : drawn)
      kernels.push_back(one.kernel);
    FailureOr<codegen::PtxKernels> built = codegen::buildPtxKernels(kernels, chip);
    ASSERT_TRUE(succeeded(built));
    for (const codegen::PtxKernel &kernel : built->kernels)
      EXPECT_NE(built->ptx.find(".entry " + kernel.function + "("), std::string::npos);
    const std::string name =
        (folder / ("fsdp-kernels-" + std::to_string(getpid()) + "-" + chip)).string();
    std::ofstream(name + ".ptx") << built->ptx;
    std::string command =
        std::string(FSDP_TEST_PTXAS) + " -arch=" + chip + " " + name + ".ptx -o " + name + ".cubin";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    if (!HasFailure()) {
      std::filesystem::remove(name + ".ptx");
      std::filesystem::remove(name + ".cubin");
    }
  }
}
