//===- CpuMachine.cpp - LLVM's code generator for CPUs --------------------===//

#include "fsdp/Codegen/CpuMachine.h"

#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace llvm;

Triple fsdp::codegen::getHostTriple() { return Triple(sys::getProcessTriple()); }

ArrayRef<StringLiteral> fsdp::codegen::getCpuLevels(const Triple &triple) {
  static constexpr StringLiteral x86[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
  static constexpr StringLiteral other[] = {"generic"};
  return triple.getArch() == Triple::x86_64 ? ArrayRef(x86) : ArrayRef(other);
}

Expected<std::unique_ptr<TargetMachine>>
fsdp::codegen::createCpuMachine(const Triple &triple, StringRef cpu, CodeGenOptLevel level) {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return createStringError(error);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;
  return std::unique_ptr<TargetMachine>(
      target->createTargetMachine(triple, cpu, "", options, Reloc::PIC_, std::nullopt, level));
}
