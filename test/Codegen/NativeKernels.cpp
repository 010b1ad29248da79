//===- NativeKernels.cpp - Kernels in this process ------------------------===//

#include "NativeKernels.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
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
  llvm::orc::JITTargetMachineBuilder machine(codegen::getHostTriple());
  machine.setCPU(codegen::getCpuLevels(codegen::getHostTriple()).front().str())
      .setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
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

void (*NativeKernels::add(std::unique_ptr<llvm::Module> module,
                          std::unique_ptr<llvm::LLVMContext> context,
                          const std::string &name))(void **) {
  llvm::Function *tensors = module->getFunction(name + ".tensors");
  llvm::Type *pointer = llvm::PointerType::get(*context, 0);
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(*context), {pointer}, false);
  auto *all = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, *module);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(*context, "", all));
  llvm::SmallVector<llvm::Value *> addresses;
  for (unsigned i = 0; i < tensors->arg_size(); ++i)
    addresses.push_back(
        builder.CreateLoad(pointer, builder.CreateConstGEP1_64(pointer, all->getArg(0), i)));
  builder.CreateCall(tensors, addresses);
  builder.CreateRetVoid();
  if (!succeeded(jit->addIRModule({std::move(module), std::move(context)})))
    return nullptr;
  auto address = jit->lookup(name);
  return address ? address->toPtr<void (*)(void **)>() : (succeeded(address.takeError()), nullptr);
}

void NativeKernels::define(const std::string &name, void *function) {
  llvm::cantFail(jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(
      {{jit->mangleAndIntern(name),
        {llvm::orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported}}})));
}

fsdp_kernel_function NativeKernels::lookup(const std::string &name) {
  auto address = jit->lookup(name);
  return address ? address->toPtr<fsdp_kernel_function>()
                 : (succeeded(address.takeError()), nullptr);
}

unsigned fsdp::test::getNumRunnableLevels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4"))
    return 3;
  if (__builtin_cpu_supports("x86-64-v3"))
    return 2;
#endif
  return 1;
}
