//===- LowerKernels.cpp - From dialects to LLVM ---------------------------===//

#include "LowerKernels.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/xxhash.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::codegen;

std::string fsdp::codegen::nameFunction(KernelOp kernel) {
  std::string text = stringifyRounding(kernel.getRounding()).str();
  llvm::raw_string_ostream os(text);
  for (Operation &op : kernel.getBody().front())
    op.print(os, OpPrintingFlags().assumeVerified());
  for (Type type : kernel.getBody().front().getArgumentTypes())
    os << type;
  llvm::XXH128_hash_t hash =
      llvm::xxh3_128bits(ArrayRef(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
  return "fsdp_kernel_" + llvm::utohexstr(hash.high64, true, 16) +
         llvm::utohexstr(hash.low64, true, 16);
}

FailureOr<KernelShape> fsdp::codegen::getShape(KernelOp kernel) {
  std::string problem;
  if (std::optional<KernelShape> shape = KernelShape::of(kernel, problem))
    return *shape;
  return kernel.emitError("kernel @") << kernel.getSymName() << " cannot be generated: " << problem;
}

std::unique_ptr<llvm::Module> fsdp::codegen::lowerToLlvm(ModuleOp module,
                                                         llvm::LLVMContext &context) {
  PassManager manager(module.getContext());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createConvertFuncToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
  if (failed(manager.run(module)))
    return nullptr;
  return translateModuleToLLVMIR(module, context, "kernels");
}

void fsdp::codegen::optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  // CPUs wait for memory: loops of a hundred kilobytes of code are not faster, and take long to
  // compile.
  tuning.LoopUnrolling = module.getTargetTriple().isNVPTX();
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}
