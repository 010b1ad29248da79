//===- NativeKernels.cpp - Kernels compiled into this process -------------===//

#include "fsdp/Codegen/NativeKernels.h"

#include "fsdp/Codegen/CpuMachine.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"

using namespace llvm;
using namespace fsdp::codegen;

NativeKernels::NativeKernels(std::unique_ptr<orc::LLJIT> jit) : jit(std::move(jit)) {}
NativeKernels::NativeKernels(NativeKernels &&other) = default;
NativeKernels &NativeKernels::operator=(NativeKernels &&other) = default;
NativeKernels::~NativeKernels() = default;

Expected<NativeKernels> NativeKernels::create() {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  // As in fsdp-compile's objects: functions declare the CPU features they need.
  const Triple triple = getHostTriple();
  orc::JITTargetMachineBuilder machine(triple);
  machine.setCPU(getCpuLevels(triple).front().str()).setCodeGenOptLevel(CodeGenOptLevel::Default);
  machine.getOptions().AllowFPOpFusion = FPOpFusion::Strict;
  auto jit = orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(machine)).create();
  if (!jit)
    return jit.takeError();
  return NativeKernels(std::move(*jit));
}

Error NativeKernels::add(StringRef bitcode) {
  auto context = std::make_unique<LLVMContext>();
  auto module = parseBitcodeFile({bitcode, "kernels"}, *context);
  if (!module)
    return module.takeError();
  // Functions are hidden within an object, but lookups need them visible.
  for (Function &function : **module)
    if (!function.isDeclaration())
      function.setVisibility(GlobalValue::DefaultVisibility);
  return jit->addIRModule({std::move(*module), std::move(context)});
}

Expected<fsdp_kernel_function> NativeKernels::lookup(StringRef name) {
  Expected<orc::ExecutorAddr> address = jit->lookup(name);
  if (!address)
    return address.takeError();
  return address->toPtr<fsdp_kernel_function>();
}
