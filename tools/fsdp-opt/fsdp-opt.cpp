//===- fsdp-opt.cpp - Run passes on captured training steps ---------------===//

#include "../ResponseFiles.h"
#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

/// LLVM's shared library brings some thousand options of its code generators: --help is about ours.
static void hideOptionsOfLlvm() {
  for (auto &entry : llvm::cl::getRegisteredOptions())
    if (entry.second->ArgStr != "help" && entry.second->ArgStr != "version")
      entry.second->setHiddenFlag(llvm::cl::ReallyHidden);
}

/// An error names the parameter or module that it is about; the whole module behind it would hide
/// that.
static void printNoModulesBehindErrors() {
  mlir::registerMLIRContextCLOptions();
  auto it = llvm::cl::getRegisteredOptions().find("mlir-print-op-on-diagnostic");
  if (it != llvm::cl::getRegisteredOptions().end())
    static_cast<llvm::cl::opt<bool> *>(it->second)->setInitialValue(false);
}

int main(int argc, char **argv) {
  hideOptionsOfLlvm();
  printNoModulesBehindErrors();
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, fsdp::aten::AtenDialect, fsdp::FsdpDialect>();
  fsdp::registerFsdpPasses();
  fsdp::registerFsdpPipelines();
  mlir::registerTransformsPasses(); // cse, canonicalize, view-op-graph, ...
  fsdp::ExpandedArguments arguments(argc, argv);
  if (!arguments)
    return 1;
  return mlir::asMainReturnCode(mlir::MlirOptMain(arguments.getCount(), arguments.get(),
                                                  "fsdp-opt: FSDP passes on captured steps\n",
                                                  registry));
}
