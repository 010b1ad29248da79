//===- RunPipelines.cpp - From captured steps to planned ones --------------===//

#include "RunPipelines.h"

#include "Progress.h"
#include "fsdp/Analysis/Program.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"
#include "passes/SearchOptions.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace fsdp;

std::string fsdp::inTemps(const Options &options, llvm::StringRef file) {
  llvm::SmallString<128> path(options.saveTemps);
  llvm::sys::path::append(path, file);
  return std::string(path);
}

static OffloadPolicy toOffloadPolicy(StringRef word) {
  return word == "all"    ? OffloadPolicy::All
         : word == "auto" ? OffloadPolicy::Auto
                          : OffloadPolicy::None;
}

OffloadChoices fsdp::getOffload(const Options &options) {
  return {toOffloadPolicy(options.offloadOptimizer), toOffloadPolicy(options.offloadActivations)};
}

OffloadPolicy fsdp::getChunkOffload(const Options &options) {
  return toOffloadPolicy(options.offloadChunks);
}

ScheduleChoice fsdp::getSchedule(const Options &options) {
  return options.schedule == "auto"   ? ScheduleChoice::Auto
         : options.schedule == "asap" ? ScheduleChoice::Asap
                                      : ScheduleChoice::Fsdp2;
}

/// Runs the passes that `build` adds to a pass manager. `prefix`: prefix of the files under
/// --save-temps.
static int runPasses(ModuleOp module, const Options &options, Stage &stage,
                     const std::string &prefix, llvm::function_ref<void(OpPassManager &)> build) {
  PassManager manager(module.getContext());
  build(manager);
  auto owned = std::make_unique<Progress>(stage, options.saveTemps, prefix);
  Progress &progress = *owned;
  manager.addInstrumentation(std::move(owned));
  bool failed = mlir::failed(manager.run(module));
  llvm::Error saveErrors = std::move(progress.saveErrors);
  if (failed) {
    llvm::consumeError(std::move(saveErrors));
    return stage.fail("pass '" + progress.failedPass + "' (see above)");
  }
  return saveErrors ? stage.fail(std::move(saveErrors)) : 0;
}

/// Sets the options of how state is sharded, which all steps share.
static void setSharding(const Options &options, PipelineOptions &pipeline) {
  pipeline.config = options.config;
  pipeline.reshardAfterForward = options.reshardAfterForward;
  pipeline.layout = options.layout;
  pipeline.shardPlacement = options.shardPlacement;
  pipeline.offloadPolicy = options.offloadPolicy;
  pipeline.prefetch = options.prefetch;
  pipeline.paramDtype = options.capture.getParamDtype();
  pipeline.reduceDtype = options.reduceDtype;
  pipeline.splitRoot = options.splitRoot;
  pipeline.splitBlocks = options.splitBlocks;
  pipeline.splitsGroups = getSchedule(options) != ScheduleChoice::Fsdp2;
}

/// Sets the options that only a training step has; an evaluation has FSDP2's order.
static void setTraining(const Options &options, PipelineOptions &pipeline) {
  pipeline.microbatches = options.microbatches;
  pipeline.microbatchLoss = options.microbatchLoss;
  pipeline.microbatchOrder = options.microbatchOrder;
  pipeline.stages = options.stages;
  pipeline.gradientSync = options.gradientSync;
  pipeline.reshardAfterBackward = options.reshardAfterBackward;
  // The flag is checked, so this succeeds.
  pipeline.recompute = *symbolizeRecomputePolicy(options.recompute);
  pipeline.offloadOptimizer = getOffload(options).optimizer;
  pipeline.offloadActivations = getOffload(options).activations;
  pipeline.offloadChunks = getChunkOffload(options);
  pipeline.schedule = getSchedule(options);
  pipeline.memoryCap = options.memoryCap;
  pipeline.buckets = options.buckets;
  pipeline.seed = options.seed;
  pipeline.budget = options.budget;
  pipeline.maxBucketSize = options.maxBucketSize;
  setCostOptions(options.costs, pipeline);
}

std::string fsdp::getPrefix(size_t mesh) {
  return mesh == 0 ? "" : "mesh_" + std::to_string(mesh + 1) + ".";
}

static std::string nameSource(const ProgramStep &step) {
  return step.source.empty() ? "MODEL" : step.source;
}

/// Of several steps or meshes, this step and mesh; empty if there is one.
static std::string nameAmongOthers(const ProgramStep &step, bool isProgram, size_t mesh,
                                   const Options &options) {
  std::string name = isProgram ? nameSource(step) : "";
  if (options.meshes.size() > 1)
    name += (name.empty() ? "--mesh " : " with --mesh ") + options.meshes[mesh];
  return name;
}

/// Brings a captured step to the phase planned, or to scheduled if it is part of a program of
/// several steps.
static int runPipeline(ModuleOp module, const ProgramStep &step, bool isProgram, size_t mesh,
                       const Options &options, Stage &stage) {
  stage.begin(step.capture.isEvaluation ? "evaluate" : "shard");
  PipelineOptions pipeline;
  pipeline.mesh = options.meshes[mesh];
  setSharding(options, pipeline);
  if (step.capture.isEvaluation)
    pipeline.recompute = RecomputePolicy::None;
  else
    setTraining(options, pipeline);
  // An evaluation is not searched for, so nothing would resolve transport auto.
  if (!step.capture.isEvaluation || options.transport != Transport::Auto)
    pipeline.transport = options.transport;
  if (step.source.empty() && mesh == 0)
    pipeline.report = options.report;
  pipeline.fusion = options.fusion;
  if (isProgram)
    pipeline.upTo = ModulePhase::Scheduled;
  const int code = runPasses(module, options, stage, getPrefix(mesh) + step.prefix,
                             [&](OpPassManager &manager) { buildPipeline(manager, pipeline); });
  if (std::string name = nameAmongOthers(step, isProgram, mesh, options); code && !name.empty())
    stage.note("this is the step of " + name);
  return code;
}

/// Plans the memory of all steps together.
static int planProgram(ModuleOp program, size_t mesh, const Options &options, Stage &stage) {
  stage.begin("plan");
  return runPasses(program, options, stage, getPrefix(mesh), [&](OpPassManager &manager) {
    manager.addPass(
        createPlanMemory({.memoryCap = options.memoryCap, .profile = options.costs.profile}));
    manager.addPass(createVerifyPlanned());
  });
}

static size_t countStatesOnHost(ModuleOp step) {
  return llvm::count_if(step.getOps<GroupOp>(),
                        [](GroupOp group) { return group.isStateOnHost(); });
}

/// Runs the steps with `offload-optimizer=auto`. All steps share the optimizer state, so if one
/// shape needs it on the host, it is there for all.
static int runDeciding(MutableArrayRef<OwningOpRef<ModuleOp>> modules, ArrayRef<ProgramStep> steps,
                       size_t mesh, const Options &options, Stage &stage) {
  SmallVector<OwningOpRef<ModuleOp>> captured;
  size_t most = 0;
  for (auto [step, module] : llvm::zip_equal(steps, modules)) {
    captured.push_back(module->clone());
    if (int code = runPipeline(*module, step, /*isProgram=*/true, mesh, options, stage))
      return code;
    if (!step.capture.isEvaluation)
      most = std::max(most, countStatesOnHost(*module));
  }
  Options all = options;
  all.offloadOptimizer = "all";
  for (auto [step, module, before] : llvm::zip_equal(steps, modules, captured)) {
    if (step.capture.isEvaluation || countStatesOnHost(*module) == most)
      continue;
    stage.note("optimizer state goes to the host for " + nameSource(step) +
               ", too: another shape needs it there");
    module = std::move(before);
    if (int code = runPipeline(*module, step, /*isProgram=*/true, mesh, all, stage))
      return code;
  }
  return 0;
}

static int runPipelines(MutableArrayRef<OwningOpRef<ModuleOp>> modules, ArrayRef<ProgramStep> steps,
                        size_t mesh, const Options &options, Stage &stage) {
  const bool isProgram = modules.size() > 1;
  if (options.program.hasSeveralShapes() && getOffload(options).optimizer == OffloadPolicy::Auto)
    return runDeciding(modules, steps, mesh, options, stage);
  for (auto [step, module] : llvm::zip_equal(steps, modules))
    if (int code = runPipeline(*module, step, isProgram, mesh, options, stage))
      return code;
  return 0;
}

OwningOpRef<ModuleOp> fsdp::planFor(size_t mesh, std::vector<OwningOpRef<ModuleOp>> modules,
                                    ArrayRef<ProgramStep> steps, const Options &options,
                                    Stage &stage) {
  const bool isProgram = modules.size() > 1;
  if (runPipelines(modules, steps, mesh, options, stage))
    return {};
  OwningOpRef<ModuleOp> program = isProgram ? makeProgram(modules) : std::move(modules.front());
  if (isProgram && planProgram(*program, mesh, options, stage))
    return {};
  return program;
}
