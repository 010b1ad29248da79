//===- NativeKernels.cpp - Kernels in this process ------------------------===//

#include "NativeKernels.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"

using namespace fsdp;
using namespace fsdp::test;

static bool succeeded(llvm::Error error) {
  if (!error)
    return true;
  llvm::errs() << llvm::toString(std::move(error)) << '\n';
  return false;
}

NativeKernels::NativeKernels() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  // As fsdp-compile's objects: functions say what they need of the machine.
  llvm::orc::JITTargetMachineBuilder machine(llvm::Triple("x86_64-unknown-linux-gnu"));
  machine.setCPU("x86-64").setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  machine.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  jit = llvm::cantFail(
      llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(machine)).create());
}

NativeKernels::~NativeKernels() = default;

bool NativeKernels::add(const codegen::CpuKernels &kernels) {
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = llvm::parseBitcodeFile({kernels.bitcode, "kernels"}, *context);
  if (!module)
    return succeeded(module.takeError());
  // Within an object they are hidden.
  for (llvm::Function &function : **module)
    if (!function.isDeclaration())
      function.setVisibility(llvm::GlobalValue::DefaultVisibility);
  return succeeded(jit->addIRModule({std::move(*module), std::move(context)}));
}

fsdp_kernel_function NativeKernels::lookup(const std::string &name) {
  auto address = jit->lookup(name);
  return address ? address->toPtr<fsdp_kernel_function>()
                 : (succeeded(address.takeError()), nullptr);
}

unsigned fsdp::test::getNumRunnableLevels() {
  if (__builtin_cpu_supports("x86-64-v4"))
    return 3;
  return __builtin_cpu_supports("x86-64-v3") ? 2 : 1;
}
