//===- CountCalls.cpp - A pass of another repository ------------------------===//
//
// A shared library that fsdp-opt loads. The classes of our dialects are not exported: it sees
// operations by their names.
//
//===------------------------------------------------------------------------===//

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

namespace {
struct CountCalls : mlir::PassWrapper<CountCalls, mlir::OperationPass<mlir::ModuleOp>> {
  llvm::StringRef getArgument() const override { return "count-calls"; }
  llvm::StringRef getDescription() const override { return "Say how many operators are called"; }

  void runOnOperation() override {
    unsigned calls = 0;
    getOperation().walk(
        [&](mlir::Operation *op) { calls += op->getName().getStringRef() == "aten.call"; });
    getOperation().emitRemark() << calls << " calls";
  }
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "CountCalls", "1", [] { mlir::PassRegistration<CountCalls>(); }};
}
