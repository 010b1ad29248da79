//===- PtxKernels.cpp - Kernels as PTX ------------------------------------===//

#include "fsdp/Codegen/PtxKernels.h"

#include "GpuThreads.h"
#include "LoadDialects.h"
#include "LowerKernels.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

static std::unique_ptr<llvm::TargetMachine> createMachine(StringRef chip) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict; // fma only where the kernel has one
  // The oldest PTX version that knows sm_100; drivers and assemblers accept older ones, too.
  StringRef version = chip == "sm_100" ? "+ptx86" : "+ptx80";
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, chip, version, options, std::nullopt, std::nullopt,
                                  llvm::CodeGenOptLevel::Aggressive));
}

FailureOr<PtxKernels> fsdp::codegen::buildPtxKernels(ArrayRef<KernelOp> kernels, StringRef chip) {
  PtxKernels result;
  if (kernels.empty())
    return result;
  KernelOp first = kernels.front();
  MLIRContext *context = first->getContext();
  loadDialects(*context);
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(chip);
  if (!machine)
    return first.emitError("this LLVM makes no code for ") << chip;
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  for (KernelOp kernel : kernels) {
    FailureOr<KernelShape> shape = getShape(kernel);
    if (failed(shape))
      return failure();
    PtxKernel &entry = result.kernels.emplace_back();
    entry.function = nameFunction(kernel);
    bool isNew = !module->lookupSymbol(entry.function);
    OwningOpRef<ModuleOp> other = ModuleOp::create(UnknownLoc::get(context));
    GpuGrid grid = writeGpuThreads(kernel, *shape, entry.function, isNew ? *module : other.get());
    entry.blocks = grid.blocks;
    entry.threads = grid.threads;
    entry.residentBlocks = grid.residentBlocks;
  }
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code = lowerToLlvm(*module, llvmContext);
  if (!code)
    return failure();
  code->setTargetTriple(machine->getTargetTriple());
  code->setDataLayout(machine->createDataLayout());
  for (const PtxKernel &kernel : result.kernels) {
    llvm::Function *function = code->getFunction(kernel.function);
    function->setCallingConv(llvm::CallingConv::PTX_Kernel);
    // Limits the registers of a thread to those of a block of this size.
    function->addFnAttr("nvvm.maxntid", std::to_string(kernel.threads));
    // Leaves registers for this many blocks at once.
    if (kernel.residentBlocks > 1)
      function->addFnAttr("nvvm.minctasm", std::to_string(kernel.residentBlocks));
  }
  optimize(*code, *machine);
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream os(text);
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, os, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return first.emitError("this LLVM prints no PTX");
  codegen.run(*code);
  result.ptx.assign(text.begin(), text.end());
  return result;
}
