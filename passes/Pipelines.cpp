//===- Pipelines.cpp - From a captured to a planned step ------------------===//

#include "passes/Pipelines.h"

#include "mlir/Pass/PassRegistry.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace fsdp;

void fsdp::addRecompute(OpPassManager &manager, const RecomputeOptions &options) {
  if (options.policy != RecomputePolicy::Cheap)
    manager.addPass(createRecompute());
  manager.addPass(createRecompute(options));
}

static void addRecomputation(OpPassManager &manager, const PipelineOptions &options) {
  bool isAuto = options.recompute == RecomputePolicy::Auto;
  if (isAuto && options.schedule != ScheduleChoice::Fsdp2) {
    manager.addPass(createChooseRecompute({.choice = options.schedule,
                                           .memoryCap = options.memoryCap,
                                           .buckets = options.buckets,
                                           .seed = options.seed,
                                           .budget = options.budget,
                                           .device = options.device,
                                           .profile = options.profile,
                                           .network = options.network}));
  } else if (options.recompute != RecomputePolicy::None) {
    RecomputeOptions recompute;
    recompute.policy = isAuto ? RecomputePolicy::Cheap : options.recompute;
    addRecompute(manager, recompute);
  }
}

void fsdp::buildPipeline(OpPassManager &manager, const PipelineOptions &options) {
  auto verify = [&](std::unique_ptr<Pass> verifier) {
    if (options.verify)
      manager.addPass(std::move(verifier));
  };
  bool isSearched = options.schedule != ScheduleChoice::Fsdp2;
  verify(createVerifyCaptured());
  manager.addPass(createGroupParameters({.config = options.config,
                                         .mesh = options.mesh,
                                         .reshardAfterForward = options.reshardAfterForward,
                                         .reshardDefault = isSearched ? "auto" : "none",
                                         .layout = options.layout,
                                         .prefetch = options.prefetch}));
  addRecomputation(manager, options);
  manager.addPass(createInsertCollectives());
  verify(createVerifySharded());
  if (options.upTo == ModulePhase::Sharded)
    return;

  if (isSearched) {
    manager.addPass(createOptimizeSchedule({.choice = options.schedule,
                                            .memoryCap = options.memoryCap,
                                            .buckets = options.buckets,
                                            .seed = options.seed,
                                            .budget = options.budget,
                                            .device = options.device,
                                            .profile = options.profile,
                                            .network = options.network}));
  } else {
    manager.addPass(createSchedule());
    manager.addPass(createAssignStreams());
  }
  verify(createVerifyScheduled());
  if (!options.report.empty())
    manager.addPass(createReport({.file = options.report,
                                  .memoryCap = options.memoryCap,
                                  .device = options.device,
                                  .profile = options.profile,
                                  .network = options.network}));
  if (options.upTo == ModulePhase::Scheduled)
    return;

  manager.addPass(createPlanMemory({.memoryCap = options.memoryCap}));
  verify(createVerifyPlanned());
}

void fsdp::registerFsdpPipelines() {
  PassPipelineRegistration<PipelineOptions>(
      "fsdp-pipeline", "From a captured to a planned step, each phase verified", buildPipeline);
}
