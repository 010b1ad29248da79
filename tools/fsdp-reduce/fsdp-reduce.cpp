//===- fsdp-reduce.cpp - Make a failing step small -------------------------===//

#include "../ResponseFiles.h"
#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, fsdp::aten::AtenDialect, fsdp::FsdpDialect>();
  fsdp::registerFsdpPasses();
  fsdp::registerFsdpPipelines();
  mlir::MLIRContext context(registry);
  fsdp::ExpandedArguments arguments(argc, argv);
  if (!arguments)
    return 1;
  return mlir::failed(mlir::mlirReduceMain(arguments.getCount(), arguments.get(), context));
}
