//===- PlannedStep.cpp - A step of any phase, ready to run -----------------===//

#include "PlannedStep.h"

#include "fsdp/Analysis/Step.h"
#include "fsdp/Export/LowerToPlan.h"
#include "fsdp/IR/ModelCollectives.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

using namespace mlir;
using namespace fsdp;
using profile::PlannedStep;

static void addPasses(PassManager &manager, ModulePhase phase, int64_t ranks, FusionChoice fusion) {
  switch (phase) {
  case ModulePhase::Captured: {
    PipelineOptions options;
    options.mesh = "dp=" + std::to_string(ranks);
    options.fusion = fusion;
    buildPipeline(manager, options);
    return;
  }
  case ModulePhase::Sharded:
    manager.addPass(createSchedule());
    manager.addPass(createAssignStreams());
    [[fallthrough]];
  case ModulePhase::Scheduled:
    manager.addPass(createFuse({.fusion = fusion}));
    manager.addPass(createPlanMemory());
    [[fallthrough]];
  case ModulePhase::Planned:
    manager.addPass(createVerifyPlanned());
  }
}

/// True for the entry of a call or launch; the lowering adds calls of its own, in place.
static bool isEntryOf(Operation *op, const fsdp_entry &entry, const PlanTables &tables) {
  auto call = dyn_cast<aten::CallOp>(op);
  if (!call)
    return entry.kind == FSDP_KERNEL;
  StringRef name = isOwnPart(call) ? "select_copy" : call.getBaseName();
  StringRef callee = tables.strings.c_str() + entry.callee;
  if (!name.contains("::"))
    callee.consume_front("aten::");
  return (entry.kind == FSDP_CALL || entry.kind == FSDP_VIEW) && callee == name;
}

/// Matches entries with operations: the lowering makes one entry per call and launch, in program
/// order. Collectives of the model have none of them.
static std::vector<Operation *> matchOperations(ModuleOp module, const PlanTables &tables) {
  std::vector<Operation *> operations(tables.entries.size());
  size_t entry = 0;
  for (auto function : module.getOps<func::FuncOp>())
    function.walk([&](Operation *op) {
      auto call = dyn_cast<aten::CallOp>(op);
      if (!isa<aten::CallOp, LaunchOp>(op) || (call && getModelCollective(call)))
        return;
      while (!isEntryOf(op, tables.entries[entry], tables))
        ++entry;
      if (tables.entries[entry].kind != FSDP_VIEW)
        operations[entry] = op;
      ++entry;
    });
  return operations;
}

static llvm::Error compileKernels(PlannedStep &step) {
  llvm::Expected<codegen::NativeKernels> native = codegen::NativeKernels::create();
  if (!native)
    return native.takeError();
  step.native = std::move(*native);
  if (llvm::Error error = step.native->add(step.tables.kernelCode))
    return error;
  for (const std::string &name : step.tables.kernelFunctions) {
    llvm::Expected<fsdp_kernel_function> function = step.native->lookup(name);
    if (!function)
      return function.takeError();
    step.kernelFunctions.push_back(*function);
  }
  return llvm::Error::success();
}

bool fsdp::profile::hasKernels(ModuleOp module) { return !module.getOps<KernelOp>().empty(); }

/// Resolves `fusion` for a module in this phase.
static llvm::Expected<FusionChoice> chooseKernels(ModuleOp module, ModulePhase phase,
                                                  FusionChoice fusion) {
  if (fusion == FusionChoice::Auto)
    return profile::hasKernels(module) || phase >= ModulePhase::Scheduled ? FusionChoice::Off
                                                                          : fusion;
  if (profile::hasKernels(module))
    return llvm::createStringError("--fusion is of steps without kernels, but this one has been "
                                   "fused before; profile the captured step");
  if (fusion != FusionChoice::Off && phase == ModulePhase::Planned)
    return llvm::createStringError("--fusion is of steps whose memory is not planned yet, but this "
                                   "one is planned, without kernels");
  return fusion;
}

llvm::Expected<PlannedStep> fsdp::profile::planStep(ModuleOp module, int64_t ranks,
                                                    FusionChoice fusion) {
  auto fail = [] { return llvm::createStringError("this is no step that can be run"); };
  FailureOr<Step> declarations = Step::collect(module);
  if (failed(declarations))
    return fail();
  ModulePhase phase = getPhase(module);
  int64_t ownRanks = declarations->getWorldSize();
  if (phase != ModulePhase::Captured && ranks != 0 && ranks != ownRanks)
    return llvm::createStringError("--ranks " + std::to_string(ranks) +
                                   ", but the step is made for " + std::to_string(ownRanks));
  llvm::Expected<FusionChoice> kernels = chooseKernels(module, phase, fusion);
  if (!kernels)
    return kernels.takeError();
  PlannedStep step;
  step.module = module.clone();
  PassManager manager(module.getContext());
  auto exported = module->getAttrOfType<IntegerAttr>(FsdpDialect::getRanksAttrName());
  const int64_t usual = exported ? exported.getInt() : 1;
  addPasses(manager, phase, ranks == 0 ? usual : ranks, *kernels);
  if (failed(manager.run(*step.module)))
    return fail();
  FailureOr<PlanTables> tables = lowerToPlan(*step.module);
  if (failed(tables))
    return fail();
  step.tables = std::move(*tables);
  step.operations = matchOperations(*step.module, step.tables);
  if (step.hasKernels())
    if (llvm::Error error = compileKernels(step))
      return error;
  return step;
}
