//===- X86Machine.h - LLVM's code generator for x86-64 -----------*- C++ -*-===//

#ifndef FSDP_CODEGEN_X86MACHINE_H
#define FSDP_CODEGEN_X86MACHINE_H

#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace llvm {
class TargetMachine;
}

namespace fsdp::codegen {

/// Makes position-independent code for Linux. `cpu` is an instruction set as LLVM names it
/// ("x86-64"). Multiplications and additions are fused only where the code says so.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createX86Machine(llvm::StringRef cpu,
                                                                      llvm::CodeGenOptLevel level);

} // namespace fsdp::codegen

#endif // FSDP_CODEGEN_X86MACHINE_H
