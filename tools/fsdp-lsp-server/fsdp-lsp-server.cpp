//===- fsdp-lsp-server.cpp - Language server for steps in MLIR -------------===//

#include "../LlvmOptions.h"
#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "passes/VerifyPhase.h"

int main(int argc, char **argv) {
  fsdp::setVersion("fsdp-lsp-server");
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, fsdp::aten::AtenDialect, fsdp::FsdpDialect>();
  registry.addExtension(+[](mlir::MLIRContext *context, fsdp::FsdpDialect *dialect) {
    dialect->setPhaseVerifier(fsdp::verifyPhase);
    // The editor shows the source line of a diagnostic, so the operation is not printed.
    context->printOpOnDiagnostic(false);
  });
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
