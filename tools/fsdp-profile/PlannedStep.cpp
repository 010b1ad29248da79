//===- PlannedStep.cpp - A step of any phase, ready to run -----------------===//

#include "PlannedStep.h"

#include "fsdp/Analysis/Step.h"
#include "fsdp/Export/LowerToPlan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace fsdp;

static void addPasses(PassManager &manager, ModulePhase phase, int64_t ranks) {
  switch (phase) {
  case ModulePhase::Captured: {
    PipelineOptions options;
    options.mesh = "dp=" + std::to_string(ranks);
    options.fusion = FusionChoice::Off;
    buildPipeline(manager, options);
    return;
  }
  case ModulePhase::Sharded:
    manager.addPass(createSchedule());
    manager.addPass(createAssignStreams());
    [[fallthrough]];
  case ModulePhase::Scheduled:
    manager.addPass(createPlanMemory());
    [[fallthrough]];
  case ModulePhase::Planned:
    manager.addPass(createVerifyPlanned());
  }
}

/// The lowering makes one entry per call, in program order.
static std::vector<aten::CallOp> matchCalls(ModuleOp module, const PlanTables &tables) {
  std::vector<aten::CallOp> calls(tables.entries.size());
  size_t entry = 0;
  module.walk([&](aten::CallOp call) {
    while (tables.entries[entry].kind != FSDP_CALL && tables.entries[entry].kind != FSDP_VIEW)
      ++entry;
    if (tables.entries[entry].kind == FSDP_CALL)
      calls[entry] = call;
    ++entry;
  });
  return calls;
}

llvm::Expected<profile::PlannedStep> fsdp::profile::planStep(const std::string &file,
                                                             int64_t ranks) {
  DialectRegistry registry;
  registry.insert<func::FuncDialect, aten::AtenDialect, FsdpDialect>();
  PlannedStep step;
  step.context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  step.context->printOpOnDiagnostic(false);

  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> buffer = mlir::openInputFile(file, &error);
  if (!buffer)
    return llvm::createStringError(error);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sources, step.context.get());
  auto fail = [&] { return llvm::createStringError("'" + file + "' is no step that can be run"); };
  step.module = parseSourceFile<ModuleOp>(sources, step.context.get());
  if (!step.module)
    return fail();
  FailureOr<Step> declarations = Step::collect(*step.module);
  if (failed(declarations))
    return fail();
  if (!step.module->getOps<KernelOp>().empty())
    return llvm::createStringError("'" + file +
                                   "' has generated kernels (--fusion), which run in native code "
                                   "alone; profile the captured step, or one of --fusion off");
  ModulePhase phase = getPhase(*step.module);
  int64_t ownRanks = declarations->getWorldSize();
  if (phase != ModulePhase::Captured && ranks != 0 && ranks != ownRanks)
    return llvm::createStringError("--ranks " + std::to_string(ranks) + ": the step in '" + file +
                                   "' is made for " + std::to_string(ownRanks));
  PassManager manager(step.context.get());
  addPasses(manager, phase, std::max<int64_t>(ranks, 1));
  if (failed(manager.run(*step.module)))
    return fail();
  FailureOr<PlanTables> tables = lowerToPlan(*step.module);
  if (failed(tables))
    return fail();
  step.tables = std::move(*tables);
  step.calls = matchCalls(*step.module, step.tables);
  return step;
}
