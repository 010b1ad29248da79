//===- CpuKernels.cpp - Kernels as native functions -----------------------===//

#include "fsdp/Codegen/CpuKernels.h"

#include "CpuLoops.h"
#include "LoadDialects.h"
#include "LowerKernels.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

/// Replaces fused multiply-adds by two roundings. On machines without the instruction LLVM would
/// call libm. Exact kernels have no fused multiply-adds.
static void splitFma(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function)))
      if (auto *fma = dyn_cast<llvm::IntrinsicInst>(&instruction);
          fma && fma->getIntrinsicID() == llvm::Intrinsic::fma) {
        llvm::IRBuilder<> builder(fma);
        llvm::Value *product = builder.CreateFMul(fma->getOperand(0), fma->getOperand(1));
        fma->replaceAllUsesWith(builder.CreateFAdd(product, fma->getOperand(2)));
        fma->eraseFromParent();
      }
}

/// Names the functions by an instruction set and optimizes them for it.
static llvm::Error specialize(llvm::Module &module, const llvm::Triple &triple, StringRef cpu) {
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> machine =
      createCpuMachine(triple, cpu, llvm::CodeGenOptLevel::Aggressive);
  if (!machine)
    return machine.takeError();
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  if (cpu == getCpuLevels(triple).front() && !triple.isAArch64())
    splitFma(module);
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.setName(function.getName() + "." + cpu);
    function.setLinkage(llvm::GlobalValue::WeakODRLinkage);
    function.setVisibility(llvm::GlobalValue::HiddenVisibility);
    function.addFnAttr("target-cpu", cpu);
    if (triple.isX86())
      function.addFnAttr("prefer-vector-width", cpu == "x86-64-v4" ? "512" : "256");
    function.addFnAttr(llvm::Attribute::NoUnwind);
    // No calls of memcpy in place of loops.
    function.addFnAttr("no-builtins");
    if (function.getName().contains(".tensors")) // inlining would lose its noalias arguments
      function.addFnAttr(llvm::Attribute::NoInline);
  }
  optimize(module, **machine);
  return llvm::Error::success();
}

FailureOr<CpuKernels> fsdp::codegen::buildCpuKernels(ArrayRef<KernelOp> kernels,
                                                     const llvm::Triple &triple) {
  CpuKernels result;
  if (kernels.empty())
    return result;
  KernelOp first = kernels.front();
  MLIRContext *context = first->getContext();
  loadDialects(*context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  llvm::StringMap<CpuWork> written;
  for (KernelOp kernel : kernels) {
    std::string name = nameFunction(kernel);
    auto [work, isNew] = written.try_emplace(name);
    if (isNew) {
      FailureOr<KernelShape> shape = getShape(kernel);
      if (failed(shape))
        return failure();
      work->second = writeCpuLoops(kernel, *shape, name, *module);
    }
    CpuKernel &entry = result.kernels.emplace_back();
    entry.units = work->second.units;
    entry.grain = work->second.grain;
    entry.code = name;
    for (StringRef cpu : getCpuLevels(triple))
      entry.functions.push_back((name + "." + cpu).str());
  }
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> plain = lowerToLlvm(*module, llvmContext);
  if (!plain)
    return failure();
  auto all = std::make_unique<llvm::Module>("kernels", llvmContext);
  llvm::Linker linker(*all);
  for (StringRef cpu : getCpuLevels(triple)) {
    std::unique_ptr<llvm::Module> own = llvm::CloneModule(*plain);
    if (llvm::Error error = specialize(*own, triple, cpu))
      return first.emitError(llvm::toString(std::move(error)));
    all->setTargetTriple(own->getTargetTriple());
    all->setDataLayout(own->getDataLayout());
    if (linker.linkInModule(std::move(own)))
      return failure();
  }
  llvm::raw_string_ostream os(result.bitcode);
  llvm::WriteBitcodeToFile(*all, os);
  os.flush();
  return result;
}

LogicalResult fsdp::codegen::printCpuKernel(KernelOp kernel, llvm::raw_ostream &os) {
  loadDialects(*kernel->getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(kernel->getContext()));
  FailureOr<KernelShape> shape = getShape(kernel);
  if (failed(shape))
    return failure();
  writeCpuLoops(kernel, *shape, kernel.getSymName(), *module);
  module->print(os);
  return success();
}
