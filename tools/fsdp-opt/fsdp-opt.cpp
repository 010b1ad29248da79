//===- fsdp-opt.cpp - Run passes on captured training steps ---------------===//

#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, fsdp::aten::AtenDialect, fsdp::FsdpDialect>();
  fsdp::registerFsdpPasses();
  fsdp::registerFsdpPipelines();
  mlir::registerTransformsPasses(); // cse, canonicalize, view-op-graph, ...
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "fsdp-opt: FSDP passes on captured steps\n", registry));
}
