//===- fuzz-modules.cpp - Text and bytecode of every phase ----------------===//
//
// Reads and verifies a module, and processes it as the tools would: a captured module goes through
// the pipeline, a sharded one through scheduling, and all are lowered to a plan.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Export/LowerToPlan.h"
#include "fsdp/IR/Fsdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "passes/VerifyPhase.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

#include <csetjmp>

using namespace mlir;
using namespace fsdp;

/// Brings a verified module to the phase planned.
static LogicalResult plan(ModuleOp module, ModulePhase phase) {
  PassManager manager(module.getContext());
  if (phase == ModulePhase::Captured) {
    PipelineOptions options;
    options.mesh = "dp=2";
    buildPipeline(manager, options);
  } else {
    if (phase == ModulePhase::Sharded) {
      manager.addPass(createSchedule());
      manager.addPass(createAssignStreams());
      manager.addPass(createVerifyScheduled());
    }
    if (phase != ModulePhase::Planned)
      manager.addPass(createPlanMemory());
    manager.addPass(createVerifyPlanned());
  }
  return manager.run(module);
}

/// The text must end with a null character, as files in memory do, since MLIR's lexer reads up to
/// it.
static void compile(const std::string &text) {
  DialectRegistry registry;
  registry.insert<func::FuncDialect, aten::AtenDialect, FsdpDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &diagnostic) {
    (void)diagnostic.str();
    return success();
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module || failed(verifyPhase(*module)))
    return;
  auto phase = (*module)->getAttrOfType<ModulePhaseAttr>(FsdpDialect::getPhaseAttrName());
  if (!phase || failed(plan(*module, phase.getValue())))
    return;
  FailureOr<std::vector<PlanTables>> program = lowerProgram(*module);
  if (succeeded(program))
    printPlan(linkPlans(*program).front(), llvm::nulls());
}

/// Target of the jump after a fatal error of LLVM, on which the tools end with a message
/// (tools/FatalErrors.h). Memory allocated for the input until then is leaked.
static std::jmp_buf afterFatalError;

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  auto leave = [](void *, const char *, bool) { std::longjmp(afterFatalError, 1); };
  llvm::install_fatal_error_handler(leave);
  llvm::install_bad_alloc_error_handler(leave);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (setjmp(afterFatalError) == 0)
    compile(std::string(reinterpret_cast<const char *>(data), size));
  return 0;
}
