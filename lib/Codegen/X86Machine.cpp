//===- X86Machine.cpp - LLVM's code generator for x86-64 ------------------===//

#include "fsdp/Codegen/X86Machine.h"

#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

Expected<std::unique_ptr<TargetMachine>> fsdp::codegen::createX86Machine(StringRef cpu,
                                                                         CodeGenOptLevel level) {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return createStringError(error);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;
  return std::unique_ptr<TargetMachine>(
      target->createTargetMachine(triple, cpu, "", options, Reloc::PIC_, std::nullopt, level));
}
