//===- CpuTargetsTest.cpp - Kernels for other CPUs than this one ----------===//

#include "RandomKernel.h"
#include "fsdp/Codegen/CpuKernels.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <gtest/gtest.h>

#include <set>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::test;

/// The object that a compiler on a machine of `triple` would make of the kernels' code.
static llvm::SmallVector<char, 0> emitObject(const std::string &bitcode,
                                             const llvm::Triple &triple) {
  llvm::LLVMContext context;
  auto module = llvm::cantFail(llvm::parseBitcodeFile({bitcode, "kernels"}, context));
  auto machine = llvm::cantFail(codegen::createCpuMachine(
      triple, codegen::getCpuLevels(triple).front(), llvm::CodeGenOptLevel::Default));
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream os(object);
  llvm::legacy::PassManager passes;
  EXPECT_FALSE(
      machine->addPassesToEmitFile(passes, os, nullptr, llvm::CodeGenFileType::ObjectFile));
  passes.run(*module);
  return object;
}

// On an ARM machine a kernel is one function, for the baseline of that architecture, which calls
// nothing.
TEST(CpuTargets, ArmHasItsBaseline) {
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<aten::AtenDialect, FsdpDialect>();
  const std::vector<RandomKernel> drawn = drawKernels(context);
  std::vector<KernelOp> kernels;
  for (const RandomKernel &one : drawn)
    kernels.push_back(one.kernel);
  const llvm::Triple triple("aarch64-unknown-linux-gnu");
  FailureOr<codegen::CpuKernels> built = codegen::buildCpuKernels(kernels, triple);
  ASSERT_TRUE(succeeded(built));
  llvm::SmallVectorMemoryBuffer buffer(emitObject(built->bitcode, triple));
  auto object =
      llvm::cantFail(llvm::object::ObjectFile::createObjectFile(buffer.getMemBufferRef()));
  EXPECT_EQ(object->getArch(), llvm::Triple::aarch64);
  std::set<std::string> defined;
  for (const llvm::object::SymbolRef &symbol : object->symbols()) {
    const std::string name = llvm::cantFail(symbol.getName()).str();
    if (llvm::cantFail(symbol.getFlags()) & llvm::object::SymbolRef::SF_Undefined)
      EXPECT_EQ(name, "");
    else
      defined.insert(name);
  }
  for (const codegen::CpuKernel &kernel : built->kernels) {
    ASSERT_EQ(kernel.functions.size(), 1u);
    EXPECT_TRUE(defined.contains(kernel.functions.front())) << kernel.functions.front();
  }
}
